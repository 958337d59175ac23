"""Tests of the cascade."""
