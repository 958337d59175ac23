"""The stages of the search flow, one module a step of its diagram."""
