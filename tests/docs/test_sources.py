"""The page about the sources: each row leads to a recipe, stage, parameter, key or field that exists."""

import re
import types
import typing
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from schemas.document import DocumentEvent
from schemas.query import QueryEvent
from schemas.recipes import SHIPPED
from schemas.recipes.recipe import MAX_DISTANCE, STAGES
from schemas.result import Debug, ResultEvent
from schemas.settings import Settings
from tests.docs.pages import DOCS

PAGE = (DOCS / "why" / "sources.md").read_text(encoding="utf-8")
ROWS = [
    line
    for line in PAGE.splitlines()
    if line.startswith("| ") and not re.match(r"\| (difference|\w[\w ]*) \| (reason|here)", line)
]
FREE: frozenset[str] = frozenset({"emotional_weight"})
"""Fields of documents that stages read, and that the contract does not list."""


def models(annotation: object) -> Iterator[tuple[str, type[BaseModel]]]:
    """The models in a type, and `.*` where they are a mapping's values."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield "", annotation
        return
    origin = typing.get_origin(annotation)
    for each in typing.get_args(annotation):
        if isinstance(each, type | types.GenericAlias | types.UnionType) or typing.get_origin(each) is not None:
            yield from ((f".*{path}" if origin is dict else path, model) for path, model in models(each))


def paths(model: type[BaseModel], prefix: str = "", around: frozenset[type[BaseModel]] = frozenset()) -> Iterator[str]:
    """The dotted paths of a model's fields; a model within itself, as a group of filters, has no further ones."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path
        for more, inner in models(field.annotation):
            if inner not in around:
                yield from paths(inner, f"{path}{more}.", around | {inner})


KNOWN = FREE | {
    *SHIPPED,
    *STAGES,
    *(f"{name}.{field.alias or key}" for name, stage in STAGES.items() for key, field in stage.model_fields.items()),
    MAX_DISTANCE,
    *DocumentEvent.model_fields,
    *QueryEvent.model_fields,
    *ResultEvent.model_fields,
    *(f"debug.{name}" for name in Debug.model_fields),
    *paths(Settings),
}


def test_the_page_has_the_five_sources_and_the_differences() -> None:
    """A section for each, with rows."""
    sections = re.findall(r"(?m)^## (.+)$", PAGE)
    assert sections[:5] == ["memini, `search`", "memini, `rerank`", "engrava", "MemPalace", "BubbleFish Nexus"]
    assert len(ROWS) > 60


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:42])
def test_each_row_leads_to_what_exists(row: str) -> None:
    """The last cell names at least one thing, and everything that it names is there."""
    named = re.findall(r"`([^`]+)`", row.rstrip("| ").rpartition("|")[2])
    assert named
    assert [name for name in named if name not in KNOWN] == []
