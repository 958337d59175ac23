"""The keyword syntax: a query's text as an expression over words. Pure."""
