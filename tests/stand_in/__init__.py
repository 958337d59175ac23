"""The promises of the stand-in of a Qdrant server to the tests that use it."""
