"""Planted defects: for each room some ways to break its promises, and which test notices."""
