"""Errors of values in words: for configurations and for events alike. Pure."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

Loc = tuple[str | int, ...]

MAX_WORDED: Final = 20
"""Problems of one event that are put into words: each costs more than the finding of it, and a reader needs no more."""

_LONGEST_NAME: Final = 80
"""Characters of a name that are compared. No name of ours is half as long."""

_MAPS: Final = (dict, Mapping)

_EXPECTED: Final = {
    "missing": "missing",
    "dict_type": "a mapping is expected",
    "mapping_type": "a mapping is expected",
    "model_type": "a mapping is expected",
    "too_short": "{min_length} values or more are expected",
    "too_long": "{max_length} values or fewer are expected",
    "union_tag_invalid": "one of {expected_tags} is expected as {discriminator}",
    "union_tag_not_found": "{discriminator} is missing",
}
"""Kind of error -> words of ours, where pydantic's own say less, or more than a reader needs."""

_URL: Final = r"^https?://[^\s/?#@\\]+(/[^\s?#]*)?"

_FORMS: Final = {
    f"{_URL}$": "a URL http(s)://host[:port][/path] is expected, without user, password and query",
    rf"{_URL}(\?[^\s#]*)?$": "a URL http(s)://host[:port][/path][?query] is expected, without user and password",
    "^[^@]*$": "host:port of brokers is expected, without user and password",
}
"""Pattern -> what it says."""


def explain_problem(item: ErrorDetails, root: type[BaseModel]) -> str:
    """The error in words; the value was to be a `root`."""
    path = item["loc"]
    if item["type"] == "extra_forbidden":
        return unknown(str(path[-1]), names(root, path[:-1]))
    context = item.get("ctx", {})
    if (words := _FORMS.get(context.get("pattern", "")) or _EXPECTED.get(item["type"])) is not None:
        return words.format_map(context)
    # A validator of ours has its words behind what pydantic puts before them.
    return item["msg"].removeprefix("Value error, ")


def join_first(first: Iterable[str], more: int, between: str = "; ") -> str:
    """The first of many problems, or names, in one line, and how many more there are."""
    return between.join([*first, f"and {more} more"] if more else first)


def unknown(name: str, known: Sequence[str], kind: str = "key") -> str:
    """Message for an unknown name, with the name that was likely meant, or else with all names."""
    if (near := likely(name, known)) is not None:
        return f"no such {kind}; did you mean {near}?"
    return f"no such {kind}; there are {', '.join(known)}" if known else f"no such {kind}"


def likely(name: str, known: Sequence[str]) -> str | None:
    """The known name that was likely meant."""
    return next(iter(difflib.get_close_matches(name[:_LONGEST_NAME], known, n=1)), None)


def names(root: type[BaseModel], path: Loc) -> list[str]:
    """The keys that the section at `path` takes; none where any name may stand, or no section is."""
    model = _model(root, path)
    return sorted(_fields(model)) if model is not None else []


def holds_names(root: type[BaseModel], path: Loc) -> bool:
    """True if the value at `path` is a map whose names are the user's own."""
    return any(get_origin(each) in _MAPS for each in _alternatives(_at(root, path)))


def _fields(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields by the names that they have in documents."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _model(root: type[BaseModel], path: Loc) -> type[BaseModel] | None:
    return next(filter(_is_model, _alternatives(_at(root, path))), None)


def _at(root: type[BaseModel], path: Loc) -> Any:
    """The annotation of the value at `path`."""
    at: Any = root
    for name in path:
        # The alternatives of a list are those of its items.
        if isinstance(name, str):
            at = _below(at, name)
    return at


def _below(at: Any, name: str) -> Any:
    """The annotation below `name` in that annotation: of a field, or of the member of a union whose tag it is."""
    models = list(filter(_is_model, _alternatives(at)))
    for model in models:
        if (field := _fields(model).get(name)) is not None:
            return field.annotation
    if (tagged := next((model for model in models if _has_tag(model, name)), None)) is not None:
        return tagged
    return next((get_args(each)[1] for each in _alternatives(at) if get_origin(each) in _MAPS), None)


def _has_tag(model: type[BaseModel], tag: str) -> bool:
    annotations = (field.annotation for field in model.model_fields.values())
    return any(get_origin(each) is Literal and tag in get_args(each) for each in annotations)


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The alternatives of an annotation: the members of a union, each without its metadata."""
    if hasattr(annotation, "__metadata__"):
        yield from _alternatives(annotation.__origin__)
    elif get_origin(annotation) not in {None, *_MAPS}:
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
