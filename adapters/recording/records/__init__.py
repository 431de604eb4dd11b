"""Values of the domain as JSON and back: decisions, states, and the files that hold them."""
