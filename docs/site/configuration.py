"""The page about the configuration: every key, of the JSON Schema that `rankstream schema config` prints."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from docs.site.markdown import code, item, paragraph
from schemas import contracts

_HEAD: Final = """\
# Configuration

Every configuration key with its type, its default in bold, and its effect. This page is generated; `rankstream schema
config` prints a JSON Schema for editors, and `rankstream config` the values in effect with their origin.
[deploy/rankstream.yaml](../../deploy/rankstream.yaml) is a file to copy from.

- **File.** One YAML file, `--config`, of at most 262,144 bytes. Sources of policies may be in files of their own:
  [`policies.files`](../how-to/policies.md#many-sources).
- **Environment variables** override the file. `RANKSTREAM_KAFKA__SESSION_TIMEOUT` sets `kafka.session_timeout`: the
  path in upper case, with two underscores between its parts. The value of a list, a map or a whole section is JSON:
  `RANKSTREAM_KAFKA__TOPICS`. A key below a name of your own, such as `<profile>`, has no variable; set the map's.
- **Merging.** Maps and sections of the file and of a variable are merged by name; a list replaces the other. The word
  `null` in a variable is null.
- **Defaults.** Set `qdrant.url` or `qdrant.path`; every other key has a default. Where none is named, it is null, `[]`
  or `{}`. The type *seconds* is a number above 0, up to 3,600.
- **Secrets** come from their variable or from the file that the key `..._file` names, never from the YAML.
- **Errors.** An unknown key or variable and a wrong value are errors: the process names them all and exits with 2.
- **YAML** is version 1.2: `no` is a text, such as a language, except as the value of a boolean key, where `yes`, `no`,
  `on` and `off` are booleans, too.
"""

_ELSEWHERE: Final = {
    "profiles": "The profiles that a query may name. Keys of a shipped profile, `fast`, `balanced` or `deep`, override"
    " its own; other profiles have the defaults below.",
    "recipes": "Your recipes, beside the shipped ones or in place of them: [ranking.md](ranking.md).",
}
"""What is described on a page of its own, or by its own keys."""

_NOTHING: Final[tuple[object, ...]] = (None, [], {})
"""Defaults that the page does not name, with that of a key whose default depends on the machine."""

_FAR: Final = 1_000_000
"""A bound this far from zero only keeps slips away, and is not named."""

_NAMES: Final = {"profiles": "profile", "qdrant.analysers": "collection", "policies.sources": "source"}
"""What the names of a map stand for, if its values are sections."""

Schema = Mapping[str, Any]


def page() -> str:
    """The page, as it is kept in the repository."""
    return "\n".join([_HEAD, *_Keys(contracts.all_contracts()["config"]).sections()])


class _Keys:
    """The keys of the configuration. A key that an earlier section has under the same name refers to that section."""

    def __init__(self, schema: Schema) -> None:
        self._top: Schema = schema["properties"]
        self._definitions: Schema = schema["$defs"]
        self._described: dict[tuple[str, bytes], str] = {}
        """Name and schema of a key -> the section that describes it."""

    def sections(self) -> Iterator[str]:
        """The parts of the page, one after another."""
        for name, key in self._top.items():
            if "$ref" in key or name in _NAMES:
                yield from self._section(name, key)
            else:
                yield f"## `{name}`\n"
                yield self._key(name, {"description": _ELSEWHERE.get(name, ""), **key}) + "\n"

    def _section(self, path: str, key: Schema, level: int = 2) -> Iterator[str]:
        """A heading, what the section is, its keys, and the sections in it."""
        yield f"{'#' * level} `{path}`\n"
        section = self._resolved(key)
        yield paragraph(_plain(_ELSEWHERE.get(path) or (section if "$ref" in key else key)["description"])) + "\n"
        if path in _NAMES:
            section, path = self._resolved(key["additionalProperties"]), f"{path}.<{_NAMES[path]}>"
        lines: list[str] = []
        repeated: dict[str, list[str]] = {}
        inside: list[tuple[str, Schema]] = []
        for name, inner in section["properties"].items():
            below = f"{path}.{name}"
            if (where := self._repeats(name, inner)) is not None:
                repeated.setdefault(where, []).extend(self._paths(below, inner))
            elif below in _NAMES or self._is_section(inner):
                inside.append((below, inner))
            else:
                lines.append(self._key(below, inner))
            self._described.setdefault((name, orjson.dumps(inner)), path)
        if len(repeated) == 1 and not lines and not inside:
            lines.append(f"Its keys are those of {code(*repeated)}.")
        else:
            for where, paths in repeated.items():
                lines.append(item(f"As in {code(where)}: {', '.join(f'**{code(each)}**' for each in paths)}."))
        if lines:
            yield "\n".join(lines) + "\n"
        for below, inner in inside:
            yield from self._section(below, inner, 3)

    def _repeats(self, name: str, key: Schema) -> str | None:
        """The section that has described this key, if there is one."""
        return self._described.get((name, orjson.dumps(key)))

    def _paths(self, path: str, key: Schema) -> Iterator[str]:
        """The path of a key, or those of the keys in a section."""
        if self._is_section(key):
            for name, inner in self._resolved(key)["properties"].items():
                yield from self._paths(f"{path}.{name}", inner)
        else:
            yield path

    def _key(self, path: str, key: Schema) -> str:
        default = f", **{_default(key)}**" if key.get("default") not in _NOTHING and "enum" not in key else ""
        return item(f"**{code(path)}** ({self._kind(key)}{default}): {_plain(key['description'])}")

    def _kind(self, key: Schema) -> str:
        """The type of a value and its bounds, in words."""
        if "anyOf" in key:
            # A default of null says that null is a value.
            null = key.get("default", "") is None
            return " or ".join(self._kind(each) for each in key["anyOf"] if not (null and each.get("type") == "null"))
        if "oneOf" in key:
            # A map has the keys of one of several forms.
            return "map"
        if "$ref" in key:
            inner = self._resolved(key)
            if "properties" not in inner:
                return "any value"
            return f"map of {', '.join(map(code, inner['properties']))}"
        if "enum" in key:
            return ", ".join(f"**{code(each)}**" if each == key.get("default") else code(each) for each in key["enum"])
        if key.get("format") in {"password", "path"}:
            return {"password": "secret", "path": "path"}[key["format"]]
        match key["type"]:
            case "array":
                return f"list of {self._kind(key['items'])}"
            case "object":
                inner = key.get("additionalProperties", True)
                return f"map of {self._kind(inner)}" if isinstance(inner, Mapping) else "map"
            case "number" if (key.get("exclusiveMinimum"), key.get("maximum")) == (0, 3600):
                return "seconds"
            case "number" | "integer" as number:
                return " ".join([number, *_bounds(key)])
            case simple:
                return str(simple)

    def _is_section(self, key: Schema) -> bool:
        return "$ref" in key and "default" in key and self._resolved(key).get("type") == "object"

    def _resolved(self, key: Schema) -> Schema:
        found: Schema = self._definitions[key["$ref"].rpartition("/")[2]] if "$ref" in key else key
        return found


def _bounds(key: Schema) -> Iterator[str]:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    yield from (f"{word} {_number(key[name])}" for name, word in words.items() if abs(key.get(name, _FAR)) < _FAR)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _default(key: Schema) -> str:
    value = key["default"]
    return code(value if value and isinstance(value, str) else orjson.dumps(value).decode())


def _plain(text: str) -> str:
    """A description on one line, with links to the pages that it names."""
    found = re.sub(r"\bdocs/(\S+?)(\w+\.md)", r"[\2](../\1\2)", " ".join(text.split()))
    return found.replace("../reference/", "")
