"""podtide.entrypoints: the commands of the command line, each with the adapters and the core that it puts together.

``cli`` knows the commands by name; each room is a group of commands. Click stands in the command modules alone.
"""
