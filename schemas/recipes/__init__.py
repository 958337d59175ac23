"""Recipes: ranking pipelines as data."""

from schemas.recipes.recipe import DEFAULT, MAX_DISTANCE, SHIPPED, Recipe, RecipeError
