"""all-MiniLM-L6-v2 in process."""
