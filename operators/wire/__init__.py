"""The wire: messages as they are read, and the forms in which results and refusals are written. Pure."""
