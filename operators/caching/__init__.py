"""Caching: answers that may be given again, and queries that are computed once. Pure: the clock is injected."""
