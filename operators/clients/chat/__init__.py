"""Chat models, and what they are asked for beside a ranking: the time that a query names."""
