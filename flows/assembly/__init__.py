"""Assembly: the settings become the parts of a flow. The only reader of settings."""
