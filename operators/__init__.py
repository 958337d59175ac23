"""The dataflow's operators and the pure parts and clients they are made of."""
