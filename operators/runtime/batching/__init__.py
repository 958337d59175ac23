"""Batching, pure: how requests that wait for a backend become calls."""
