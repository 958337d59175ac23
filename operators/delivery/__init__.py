"""Delivery: every message read from Kafka ends in exactly one output record."""
