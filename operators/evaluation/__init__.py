"""Evaluation: metrics from judgements and runs. Pure."""
