"""The base of every section of the configuration, and the types of its values."""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, NamedTuple, Self, get_args

import orjson
from pydantic import AfterValidator, ConfigDict, Field, JsonValue, SecretStr, model_validator

from schemas.fields import Consistent, Documented, Newer, Point, raise_problems, walk_fields

Seconds = Annotated[float, Field(gt=0, le=3600)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Amount = Annotated[int, Field(ge=0, le=1_000_000_000)]
Concurrency = Annotated[
    int, Field(ge=-1_000_000, le=1_000_000, description="Requests in flight at a time; 0 or less: no bound.")
]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/?#@\\]+(/[^\s?#]*)?$")]
"""Without user, password and query: they would be a secret that is no Secret."""

MASK: Final = "***"
Secret = Annotated[SecretStr | None, Field(repr=False, description="Set by its environment variable alone.")]
"""Given by the environment, or by the file that the section's key `<name>_file` names; never in the YAML."""

AS_WRITTEN: Final = "as written"
"""Mark of a map of the user's, in which the name of a secret is a secret's, too."""


def matches(name: str, patterns: Iterable[str]) -> bool:
    """True if the name is one of the patterns, or fits one."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def is_pattern(name: str) -> bool:
    """True if more than one name may fit."""
    return "*" in name or "?" in name


@cache
def secrets(section: type[Documented]) -> frozenset[tuple[str, ...]]:
    """The paths of all secrets in a section. Names that users choose, such as those of fields, may be the same."""
    return frozenset(path for path, field in walk_fields(section) if SecretStr in get_args(field.annotation))


class Reference(NamedTuple):
    """Names that other settings have, as the value of a setting; `wrong` is said of those that they do not `have`."""

    wrong: str
    have: Callable[[Any, str], bool]


DESTINATIONS: Final = Reference("not in qdrant.destinations", lambda root, name: name in root.qdrant.destinations)


def dangling(section: Documented, settings: Any, path: str = "") -> Iterator[str]:
    """A problem for each setting in a section with names that refer to nothing. Its default may."""
    for key, field in type(section).model_fields.items():
        if (value := getattr(section, key)) == field.get_default():
            continue
        here = f"{path}{key}"
        for name, each in value.items() if isinstance(value, dict) else [("", value)]:
            if isinstance(each, Documented):
                yield from dangling(each, settings, f"{here}.{name}." if name else f"{here}.")
        alone = isinstance(value, str)
        for mark in (each for each in field.metadata if isinstance(each, Reference)):
            if wrong := sorted(name for name in ([value] if alone else value) if not mark.have(settings, name)):
                # A text in the wrong place may be a secret.
                yield f"{here}: {mark.wrong}" if alone else f"{here}: {', '.join(wrong)}: {mark.wrong}"


class Section(Consistent):
    """A section: an unknown key is an error, numbers are finite, and values do not change after the start."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True, serialize_by_alias=True
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        own = sorted(name for name, *below in secrets(type(self)) if not below and getattr(self, name) is not None)
        raise_problems(f"{name} and {name}_file are both set" for name in own if getattr(self, f"{name}_file"))
        raise_problems(self.contradictions())
        return self

    def find_changed(self, names: Iterable[str]) -> list[str]:
        """Those of these keys whose values are not the defaults."""
        fields = type(self).model_fields
        return [name for name in names if getattr(self, name) != fields[name].get_default(call_default_factory=True)]

    def find_unused(self, names: Iterable[str], why: str) -> Iterator[str]:
        """A problem of those of these keys that are set, if there are any: they have no effect."""
        if given := self.find_changed(names):
            yield f"{', '.join(given)}: no effect {why}"

    def secret(self, name: str) -> str | None:
        """The secret without surrounding white space, read from its file if one is configured.

        Raises OSError if the file can't be read.
        """
        path: Path | None = getattr(self, f"{name}_file")
        if path is not None:
            return read_secret(path)
        value: SecretStr | None = getattr(self, name)
        return value.get_secret_value().strip() if value is not None else None


class BackendTls(Section):
    """Trust in a backend's certificate."""

    ca: Path | None = None
    """PEM file of trusted authorities; null: the system's, or those of SSL_CERT_FILE."""


def _as_header(name: str) -> str:
    if name.lower() in _OURS:
        raise ValueError("a header that rankstream sets itself")
    return name.lower()


_OURS: Final = frozenset({"host", "content-type", "content-length", "accept", "accept-encoding", "transfer-encoding"})

HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$"), AfterValidator(_as_header)]
HeaderValue = Annotated[str, Field(pattern=r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$")]


class Backend(Section):
    """The section of a backend that may require an API key."""

    url: Url | None = Field(default=None, description="Address of the server.")
    api_key: Secret = None
    api_key_file: Path | None = Field(default=None, description="File that holds the API key; null: see `api_key`.")
    api_key_header: HeaderName | None = None
    """Header of the API key, such as api-key for Azure; null: the header of the kind."""
    headers: dict[HeaderName, HeaderValue] = Field(default={}, repr=False)
    """Further headers of each request; `rankstream config` hides their values."""
    header_files: dict[HeaderName, Path] = Field(default={})
    """Further headers of each request, with values from files."""
    keep_alive: Seconds = 3.0
    """Seconds after which an idle connection is given up; less than the server's own time (Qdrant: 5)."""
    tls: BackendTls = BackendTls()

    def contradictions(self) -> Iterator[str]:
        if self.api_key_header is not None and self.api_key is None and self.api_key_file is None:
            yield "api_key_header: no effect without a key; remove it, or set api_key or api_key_file"


def _writable(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    try:
        # NaN is written as null.
        same = orjson.loads(orjson.dumps(values)) == values
    except TypeError:
        same = False
    if not same:
        raise ValueError("the values must be JSON, with finite numbers and integers of 64 bits")
    return values


JsonObject = Annotated[dict[str, JsonValue], AfterValidator(_writable), AS_WRITTEN]
"""Fields of requests that a server gets as they are written."""


def _not_ours(body: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if wrong := sorted(body.keys() & _OWN):
        raise ValueError(f"{', '.join(wrong)}: a field that rankstream sets itself")
    return body


_OWN: Final = frozenset({"documents", "input", "inputs", "messages", "passages", "query", "text_1", "text_2", "texts"})


Body = Annotated[
    JsonObject,
    AfterValidator(_not_ours),
    Field(description="Further fields of each request's body: objects are merged, null leaves a field out."),
]


_FEW: Final = 2
"""Kinds that a message names."""


class ModelServer(Backend):
    """The section of a model behind a server, whose requests may need more than others of its kind.

    Each has a key `kind`, and says which of its keys a kind uses: a setting without effect is an error. `kind: none`
    that is written down switches the model off, and keeps the other keys for later.
    """

    request_path: Annotated[str, Field(pattern=r"^/[!-~]*$")] | None = None
    """Path of requests below `url`, such as /v1/rerank; null: the path of the kind."""
    query: dict[str, str] = Field(default={}, repr=False)
    """Query parameters of each request, such as api-version; their values are hidden."""
    body: Newer[Point[Body]] = Field(default={})

    servers: ClassVar[tuple[str, ...]]
    """The kinds that are servers."""
    needs: ClassVar[tuple[str, ...]] = ("url",)
    """Keys that every server needs."""
    used_by: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Key -> the kinds that use it, where these are neither the servers, for keys of this class, nor all kinds."""

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        kind = vars(self)["kind"]
        if kind == "none" and "kind" in self.model_fields_set:
            return
        users = {**dict.fromkeys(ModelServer.model_fields, self.servers), **self.used_by}
        every = tuple(each for each in get_args(type(self).model_fields["kind"].annotation) if each != "none")
        wrong: dict[tuple[str, ...], list[str]] = {}
        for name in self.find_changed(type(self).model_fields):
            if name != "kind" and kind not in (kinds := users.get(name, every)):
                wrong.setdefault(kinds, []).append(name)
        for kinds, names in wrong.items():
            if kinds == self.servers:
                cure = ", or set kind, which says what the server is"
            else:
                cure = f", or set kind to {' or '.join(kinds)}" if len(kinds) <= _FEW else ""
            yield f"{', '.join(names)}: no effect with kind {kind}; remove{cure}"
        if self.served and not all(getattr(self, name) for name in self.needs):
            yield f"{kind} needs {' and '.join(self.needs)}"

    @property
    def served(self) -> bool:
        """True if a server at `url` is asked."""
        return vars(self)["kind"] in self.servers


def read_secret(path: Path) -> str:
    """The content of the file without surrounding white space. Raises OSError, also if it is not UTF-8 text."""
    try:
        return path.expanduser().read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError:
        # The original error quotes the content of the file.
        raise OSError(errno.EILSEQ, "not UTF-8", str(path)) from None
