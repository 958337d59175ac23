"""Delivery: what comes from Kafka ends there in exactly one terminal record."""
