"""Tests of batching."""
