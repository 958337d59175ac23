"""The runtime: stages of a dataflow, calls without waiting, the event loop. It knows no query."""
