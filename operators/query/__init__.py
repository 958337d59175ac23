"""The query in flight, and everything that is decided about it. Pure."""
