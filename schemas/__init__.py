"""The contracts at the boundaries: events, results, settings, recipes, errors."""
