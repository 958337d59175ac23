"""Ranking: candidates and parameters in, candidates out. Pure."""
