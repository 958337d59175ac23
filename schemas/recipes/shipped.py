"""The shipped recipes, which every installation has."""

from collections.abc import Mapping
from typing import Final

from schemas.recipes.recipe import Recipe

_ON = {"enabled": True}
_OF_CONTEXT = {"weight": 0.7, "context": 0.5}
_WITH_CONTEXT = {"vector": 0.1, "keyword": 0.3, "keyword_context": 0.4, "vector_context": 0.2}

_SHIPPED: Final[Mapping[str, list[object]]] = {
    "hybrid": ["score", "dedupe", {"rerank": {"weight": 0.6}}],
    "composite": ["score", "rerank", "composite", "temporal", "dedupe"],
    "signals": ["weighted", "reflections"],
    "distance": ["linear", {"weibull_decay": _ON}, {"keyword_boost": _ON}, {"importance_boost": _ON}],
    "decay": [{"decay": _ON}],
    "rrf": ["rrf", "dedupe", "rerank"],
    "keyword": ["keyword", "dedupe"],
    "vector": ["vector", "dedupe"],
    "documents": ["score", "dedupe", {"rerank": {"weight": 0.3}}, "feedback", "smoothing"],
    "conversation": [{"score": {"weights": _WITH_CONTEXT}}, "dedupe", {"rerank": _OF_CONTEXT}, "temporal"],
}

SHIPPED: Final[Mapping[str, Recipe]] = {name: Recipe.parse(name, {"stages": each}) for name, each in _SHIPPED.items()}
"""Recipes by name. A deployment may add recipes, and redefine these."""

DEFAULT: Final = "hybrid"
