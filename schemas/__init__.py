"""What crosses a boundary: events, settings, errors."""
