"""The descriptions of configuration keys and recipe parameters, which editors show from the JSON Schema."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel, Field

from schemas.recipes.recipe import STAGES
from schemas.settings import Settings, SourcePolicy
from schemas.settings.qdrant import Bm25Settings
from schemas.settings.ranking import Between, Profile

ELSEWHERE = {"profiles", "recipes"}
"""Keys whose values are described where their own type is."""


def undescribed(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of every key without a description, down to what isn't a section."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from undescribed(field.annotation, f"{prefix}{name}.")
        elif not field.description and prefix + name not in ELSEWHERE:
            yield prefix + name


@pytest.mark.parametrize("model", [Settings, Profile, SourcePolicy, Between, Bm25Settings, *STAGES.values()])
def test_every_key_is_described(model: type[BaseModel]) -> None:
    """Each key of the configuration and each parameter of a stage has a description."""
    assert list(undescribed(model)) == []


def test_a_key_without_a_description_is_seen() -> None:
    """A planted key without a description is reported by its path."""

    class Inner(BaseModel):
        told: int = Field(default=1, description="Told.")
        untold: int = 1

    class Outer(BaseModel):
        inner: Inner = Inner()

    assert list(undescribed(Outer)) == ["inner.untold"]
