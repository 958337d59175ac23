"""Recipes: ranking pipelines as data."""

from schemas.recipes.recipe import MAX_DISTANCE, Recipe, RecipeError
from schemas.recipes.shipped import DEFAULT, SHIPPED

__all__ = ["DEFAULT", "MAX_DISTANCE", "SHIPPED", "Recipe", "RecipeError"]
