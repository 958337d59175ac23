"""Counts of terms and documents in collections."""
