"""Processes: a replica and its flow, under signals, a watchdog and a health port."""
