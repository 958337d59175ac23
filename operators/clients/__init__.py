"""Clients of the backends: bytes in, validated values or a typed error out."""
