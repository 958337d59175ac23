"""The attempts of an adversary: tenants that want others' texts, servers that lie, messages that cost too much."""
