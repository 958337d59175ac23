"""What the stand-in of a Qdrant server promises to the tests that use it."""
