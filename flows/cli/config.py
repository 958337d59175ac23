"""`rankstream config`: the configuration as it is in effect."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from flows.cli.output import Config, Json, emit, out, say
from schemas.settings.reading import Value, effective
from schemas.texts import json_line

_INDENT: Final = "  "

_WORDS: Final = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""What YAML takes for something else than a text."""


def config(config: Config = None, as_json: Json = False) -> None:
    """Print every setting with its value, as YAML; a comment says whether the file or a variable set it.

    Secrets are masked. Exit code 2 if the configuration cannot be used.
    """
    values = effective(config)
    if as_json:
        for each in values:
            emit({"path": ".".join(map(str, each.path)), "value": each.value, "source": each.source})
        return
    for line in lines(values):
        say(out, line)


def lines(values: Iterable[Value]) -> Iterator[str]:
    """The values as YAML that a configuration file may hold; secrets, which it may not, are comments."""
    open_sections: tuple[Any, ...] = ()
    for path, value, source, secret in values:
        if secret and value is None:
            continue
        sections = path[:-1]
        shared = 0
        while shared < min(len(sections), len(open_sections)) and sections[shared] == open_sections[shared]:
            shared += 1
        for depth in range(shared, len(sections)):
            yield f"{_INDENT * depth}{_written(sections[depth])}:"
        open_sections = sections
        came = "" if source == "default" else f"  # {source}"
        yield f"{_INDENT * len(sections)}{'# ' if secret else ''}{_written(path[-1])}: {_written(value)}{came}"


def _written(value: Any) -> str:
    # JSON is YAML.
    text = json_line(value)
    return value if isinstance(value, str) and value.isidentifier() and value.lower() not in _WORDS else text
