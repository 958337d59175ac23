"""A real Kafka broker on loopback, for benchmarks and tests."""
