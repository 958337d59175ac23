"""Evaluation of recipes on judged queries: `evaluate` measures, `tune` searches parameters, `compare` compares runs."""
