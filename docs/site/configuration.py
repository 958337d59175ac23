"""The page about the configuration: every key, of the JSON Schema that `rankstream schema config` prints."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from docs.site.markdown import code, continued, item, paragraph
from schemas import contracts
from schemas.settings.root import DELIMITER, PREFIX

_HEAD: Final = """\
# Configuration

After reading this page you can look up every configuration key: what it does, its type, its default, and the
environment variable that overrides it.

This page is generated from the program; `rankstream schema config` prints the same as a JSON Schema, by which editors
complete and check the file. [deploy/rankstream.yaml](../../deploy/rankstream.yaml) is a file to copy from: it shows all
keys with their defaults. `rankstream config` prints the configuration in effect, and where each value came from. Terms
are in the [glossary](../glossary.md).

- **File and variables.** The configuration is one YAML file (`--config`). Environment variables override it. The name
  of a variable is `RANKSTREAM_` and the path of the key in upper case, its parts joined by two underscores. A variable
  for a list or a map holds JSON, and so does one for a whole section: `RANKSTREAM_KAFKA__TOPICS`. A key below a name of
  your own, such as `<profile>`, is set in the file, or with the variable of the map. Maps and sections of the file and
  of a variable are merged, name by name; a list replaces the other. The word `null` in a variable is null, not a text.
- **YAML** is read by the core schema of YAML 1.2: only `true` and `false` are booleans, so that `no` is a text, as in a
  list of languages. A setting that is a boolean may be written as `yes`, `no`, `on` or `off`, too.
- **Size.** The file has at most 262,144 bytes, enough for some 2,000 sources of policies. More sources go into files of
  their own, [`policies.files`](../how-to/policies.md#many-sources).
- **Errors.** An unknown key or variable, or a value that does not fit, is an error: the process names all of them, each
  by its path, and exits with 2.
- **Secrets** come from a variable or from the file that the key `..._file` names, never from the YAML.
- **Required.** Only `qdrant.url` or `qdrant.path` must be set; every other key has a default.
"""

_UNITS: Final = {
    "seconds": r"[Ss]econds",
    "MiB": r"MiB",
    "bytes": r"[Bb]ytes",
    "days": r"days",
    "code points": r"Code points|[Cc]haracters",
}
"""The units of numbers, by the word of the description that names them."""

_ELSEWHERE: Final = {
    "profiles": "The profiles that a query may name. Keys that are given for a shipped profile, `fast`, `balanced` or"
    " `deep`, override its own; a profile with another name has the defaults below.",
    "recipes": "Recipes beside the shipped ones or in place of them, with their stages: see [ranking.md](ranking.md).",
}
"""What is described on a page of its own, or by its own keys."""

_NAMES: Final = {"profiles": "profile", "qdrant.analysers": "collection", "policies.sources": "source"}
"""What the names of a map stand for, if its values are sections."""

Schema = Mapping[str, Any]


def page() -> str:
    """The page, as it is kept in the repository."""
    schema = contracts.all_contracts()["config"]
    definitions: Schema = schema["$defs"]
    parts = [_HEAD]
    for name, key in schema["properties"].items():
        parts += _section(name, key, definitions) if "$ref" in key or name in _NAMES else _single(name, key)
    return "\n".join(parts)


def _section(path: str, key: Schema, definitions: Schema, level: int = 2) -> Iterator[str]:
    """A heading, what the section is, its keys, and the sections in it."""
    yield f"{'#' * level} `{path}`\n"
    if path in _NAMES:
        if path in _ELSEWHERE:
            yield paragraph(_ELSEWHERE[path]) + "\n"
        else:
            yield paragraph(key["description"]) + "\n"
        key, path = key["additionalProperties"], f"{path}.<{_NAMES[path]}>"
        yield paragraph(f"The keys of {code(path)}:") + "\n"
    section = _resolved(key, definitions)
    if "<" not in path:
        yield paragraph(_plain(section["description"])) + "\n"
    inside: list[tuple[str, Schema]] = []
    keys = []
    for name, inner in section["properties"].items():
        below = f"{path}.{name}"
        if below in _NAMES or _is_section(inner, definitions):
            inside.append((below, inner))
        else:
            keys.append(_key(below, inner, definitions, name in section.get("required", ())))
    if keys:
        yield "\n".join(keys) + "\n"
    for below, inner in inside:
        yield from _section(below, inner, definitions, 3)


def _single(name: str, key: Schema) -> Iterator[str]:
    """A key at the top that is no section."""
    yield f"## `{name}`\n"
    yield _key(name, {"description": _ELSEWHERE.get(name, ""), **key}, {}, required=False) + "\n"


def _key(path: str, key: Schema, definitions: Schema, required: bool) -> str:
    described = _plain(key["description"])
    kind = _kind(key, definitions)
    facts = f"{kind[0].upper()}{kind[1:]}"
    if kind.startswith(("number", "integer")):
        facts += "".join(f"; {unit}" for unit, words in _UNITS.items() if re.search(rf"\b(?:{words})\b", described))
    facts += f". Default: {_default(key, required)}."
    if "<" not in path:
        facts += f" Variable: {code(PREFIX + path.upper().replace('.', DELIMITER))}."
    return item(f"**{code(path)}**: {described}") + "\\\n  " + continued(facts)


def _kind(key: Schema, definitions: Schema) -> str:
    """The type of a value and its bounds, in words."""
    if "anyOf" in key:
        return " or ".join(_kind(each, definitions) for each in key["anyOf"])
    if "oneOf" in key:
        # A map has the keys of one of several forms.
        return "map"
    if "$ref" in key:
        inner = _resolved(key, definitions)
        if "properties" not in inner:
            return "any value"
        return f"map of {', '.join(map(code, inner['properties']))}"
    if "enum" in key:
        return " or ".join(code(each) for each in key["enum"])
    if key.get("format") == "password":
        return "secret"
    if key.get("format") == "path":
        return "path"
    match key["type"]:
        case "array":
            return f"list of {_kind(key['items'], definitions)}"
        case "object":
            inner = key.get("additionalProperties", True)
            return f"map of names to {_kind(inner, definitions)}" if isinstance(inner, Mapping) else "map"
        case "number" | "integer" as number:
            return " ".join([number, *_bounds(key)])
        case simple:
            return str(simple)


def _bounds(key: Schema) -> Iterator[str]:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}
    yield from (f"{word} {_number(key[bound])}" for bound, word in words.items() if bound in key)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _default(key: Schema, required: bool) -> str:
    if required:
        return "none, it is required"
    if "default" not in key:
        return "see above"
    value = key["default"]
    return code(value if value and isinstance(value, str) else orjson.dumps(value).decode())


def _is_section(key: Schema, definitions: Schema) -> bool:
    return "$ref" in key and "default" in key and _resolved(key, definitions).get("type") == "object"


def _resolved(key: Schema, definitions: Schema) -> Schema:
    found: Schema = definitions[key["$ref"].rpartition("/")[2]] if "$ref" in key else key
    return found


def _plain(text: str) -> str:
    """A description on one line, with links to the pages that it names."""
    found = re.sub(r"\bdocs/(\S+?)(\w+\.md)", r"[\2](../\1\2)", " ".join(text.split()))
    return found.replace("../reference/", "")
