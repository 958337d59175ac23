"""The descriptions of configuration keys and recipe parameters, which editors show from the JSON Schema."""

from collections.abc import Iterator

import pytest
from pydantic import BaseModel, Field

from schemas.fields import Documented
from schemas.recipes.recipe import STAGES
from schemas.settings import Settings, SourcePolicy
from schemas.settings.qdrant import Bm25Settings
from schemas.settings.ranking import Between, Profile

ELSEWHERE = {"profiles", "recipes"}
"""Keys whose values are described where their own type is."""


def undescribed(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The path of every key without a description, down to what isn't a section."""
    described = model.model_json_schema()["properties"]
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from undescribed(field.annotation, f"{prefix}{name}.")
        elif not described[field.alias or name].get("description") and prefix + name not in ELSEWHERE:
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


class Inherited(Documented):
    """Fields of all forms."""

    short: int = Field(default=1, description="Short.")
    long: int = 1
    """Long, and
    longer."""
    ours: int = Field(default=1, alias="theirs")
    """Theirs."""
    bare: int = 1


class Inheriting(Inherited):
    """Fields with other descriptions."""

    short: int = 2
    """Shorter."""
    long: int = Field(default=2, description="Long no more.")


@pytest.mark.parametrize(
    ("model", "descriptions"),
    [
        (Inherited, {"short": "Short.", "long": "Long, and longer.", "theirs": "Theirs.", "bare": None}),
        (Inheriting, {"short": "Shorter.", "long": "Long no more.", "theirs": "Theirs.", "bare": None}),
    ],
)
def test_docstrings_describe_fields(model: type[BaseModel], descriptions: dict[str, str | None]) -> None:
    """The docstring of a field is its description, as one line, unless it has another; a subclass's goes before."""
    fields = model.model_json_schema()["properties"]
    assert {name: fields[name].get("description") for name in fields} == descriptions
