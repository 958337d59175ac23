"""The configuration file: one YAML document of plain data, whose plain words are read by the core schema of YAML 1.2.

So only true and false are booleans, in lower or upper case or with a capital: `no` is a text, such as the code of a
language, and so is a date. A number has one base, unless it begins with 0o or 0x.

Its reader refuses aliases, tags, duplicate keys, and a document that is too large or nested too deeply. So
reading takes bounded memory and time, it runs no code, and no value silently replaces another one of the same key.

A file of policies may be JSON, too, by its name: that is read ten times as fast.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.composer import Composer

from schemas.errors import ConfigError

MAX_BYTES: Final = 262_144
MAX_DEPTH: Final = 16


class _Refused(ValueError):
    """A part that no configuration may have, at a mark of YAML's parser, if there is one."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        super().__init__(problem if mark is None else f"{problem} (line {mark.line + 1})")


class _PlainLoader(Composer, yaml.CSafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  the parser's own are of YAML 1.1
    _depth = 0

    def __init__(self, content: str) -> None:
        # The composer of the loader in C cannot be refined.
        yaml.CSafeLoader.__init__(self, content)
        Composer.__init__(self)

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise _Refused("aliases aren't taken", event.start_mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused("tags aren't taken", event.start_mark)
        if self._depth == MAX_DEPTH:
            raise _Refused(f"nested deeper than {MAX_DEPTH}", event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode) and (name.tag, name.value) in seen:
                raise _Refused(f"{name.value!r} is set twice", name.start_mark)
            seen.add((name.tag, str(name.value)))
        return super().construct_mapping(node, deep)

    def construct_integer(self, node: yaml.ScalarNode) -> int:
        text: str = node.value
        return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))

    def construct_float(self, node: yaml.ScalarNode) -> float:
        text: str = node.value
        # Of .inf and .nan the point is in the way.
        return float(text if text[-1] in "0123456789." else text.replace(".", ""))


_CORE_SCHEMA: Final = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}
"""YAML 1.2.2, 10.3.2: tag -> the plain words that have it, the first that fits."""

for _tag, _words in _CORE_SCHEMA.items():
    _PlainLoader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_words})\Z"), None)
_PlainLoader.add_constructor("tag:yaml.org,2002:int", _PlainLoader.construct_integer)
_PlainLoader.add_constructor("tag:yaml.org,2002:float", _PlainLoader.construct_float)


def read(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The sections in the file at `path`. Raises ConfigError naming path and line, never a value."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(content) > max_bytes:
        raise ConfigError(f"{path}: larger than {max_bytes} bytes")
    try:
        text = content.decode("utf-8-sig")
        if path.suffix == ".json":
            document = json.loads(text, object_pairs_hook=_object)
        else:
            document = yaml.load(text, _PlainLoader) or {}  # noqa: S506  it is a SafeLoader
    except _Refused as error:
        raise ConfigError(f"{path}: {error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON at line {error.lineno}") from None
    except yaml.YAMLError as error:
        # The message of the parser quotes the line, which may contain a secret.
        where = f" at line {line}" if (line := _line(error)) else ""
        raise ConfigError(f"{path}: not YAML{where}{_why(text, line, error)}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply") from None
    except ValueError:
        raise ConfigError(f"{path}: a number in it has too many digits") from None
    if not isinstance(document, dict) or not all(isinstance(name, str) for name in document):
        raise ConfigError(f"{path}: not a mapping of sections")
    return document


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise _Refused(f"{name!r} is set twice")
    return made


_WORDS_OF_PARSER: Final = {
    "mapping values are not allowed in this context": (
        "a colon where none may be: indent keys of a section alike, end the line above with a colon, or quote the value"
    ),
    "did not find expected key": "indent keys of a section alike, and put nothing behind a quoted value",
    "did not find expected ',' or ']'": "the list in brackets does not end",
    "did not find expected ',' or '}'": "the mapping in braces does not end",
    "found unexpected end of stream": "a quoted value does not end",
    "found unknown escape character": "a backslash in double quotes: use single quotes",
    "block sequence entries are not allowed in this context": "write a list on lines of its own, or in brackets",
    "did not find expected '-' indicator": "a list and keys in one section",
    "could not find expected ':'": "a key needs a colon and a space behind it",
    "found character that cannot start any token": "quote a value that begins with @, % or `",
}
"""The parser's own words -> what to do. Others may quote the document."""


def _why(text: str, line: int, error: yaml.YAMLError) -> str:
    """The mistake of this line in words, where it is a common one."""
    lines = text.splitlines()
    written = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return ": indent by spaces, not by a tab"
    words = _WORDS_OF_PARSER.get(getattr(error, "problem", None) or "")
    return f": {words}" if words is not None else ""


def _line(error: yaml.YAMLError) -> int:
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else 0
