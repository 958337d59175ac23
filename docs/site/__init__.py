"""How the documentation becomes a site: its contents, its settings, and the pages that are generated."""
