"""The keyword syntax: what a query's text says, as an expression over words. Pure."""
