"""Caching: answers that serve later queries, and equal queries that are computed once. Pure: time is an argument."""
