"""The documentation: every page, every command and snippet of it, and the site that is built of it."""
