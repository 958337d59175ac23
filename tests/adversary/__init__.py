"""What an adversary tries: tenants that want the texts of others, servers that lie, messages that cost too much."""
