"""The mapping of somebody's documents: profiles of their fields, and which field has which role. Pure."""
