"""Experiments: two rankings of one query, users' actions on the results, and the ranking that they prefer. Pure."""
