"""The life of a collection: its making, its gaps against the configuration, its generations, and its facts."""
