"""Measurements: what the pipeline costs, and the stub backends it is measured against."""
