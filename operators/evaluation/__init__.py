"""Evaluation: judgements and runs in, figures out. Pure."""
