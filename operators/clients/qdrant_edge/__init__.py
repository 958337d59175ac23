"""Qdrant's engine in this process, behind the same transport as a server."""
