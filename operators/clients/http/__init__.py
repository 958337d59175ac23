"""HTTP backends: the transport, and the layers over it."""
