"""``podtide mcp``: an assistant's questions about logs, over the Model Context Protocol on standard input and output."""
