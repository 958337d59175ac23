"""The dataflows, the processes that run them and the command line."""
