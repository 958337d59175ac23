"""Batching: waiting requests to a backend become calls. Pure."""
