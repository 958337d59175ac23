"""The error tree: the cause of an error decides how it is handled.

RankstreamError
├── InputError        the message is wrong   -> a dead letter, and the caller hears; others are unaffected
├── BackendError      a backend failed       -> the query continues without it, and its result says so
│   ├── BackendTimeout
│   │   └── DeadlinePassed
│   ├── BackendUnavailable
│   ├── BackendBadResponse
│   └── NoTokenVectors     nothing failed      -> the query continues without it, with a warning
├── DeliveryError     Kafka failed           -> never swallowed
│   ├── RetriableDelivery                       the transaction is aborted and retried
│   └── FatalDelivery                           the process exits non-zero; its successor reads again
│       └── Fenced
└── ConfigError       the configuration      -> exit code 2 before anything starts

The second half puts problems of values into words, for configurations and for events alike.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final, Literal, Self, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, ValidationError

_MAX_QUOTED: Final = 80
_MAX_FIELD: Final = 256
"""Characters of a field's path: a message may name its fields as it likes."""


class RankstreamError(Exception):
    """The base of every error that rankstream raises on purpose."""


class DeadLetterClass(StrEnum):
    """Why a message became a dead letter: a closed list."""

    NOT_JSON = "not_json"
    SCHEMA = "schema"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED_VERSION = "unsupported_version"
    VECTOR_DIMENSION = "vector_dimension"
    CURSOR_INVALID = "cursor_invalid"
    CURSOR_EXPIRED = "cursor_expired"
    NOT_FOUND = "not_found"
    INTERNAL = "internal"


_FIELDS: Final = {
    DeadLetterClass.UNSUPPORTED_VERSION: "schema_version",
    DeadLetterClass.VECTOR_DIMENSION: "vector",
    DeadLetterClass.CURSOR_INVALID: "cursor",
    DeadLetterClass.CURSOR_EXPIRED: "cursor",
    DeadLetterClass.NOT_FOUND: "id",
}
"""The field that is wrong, where the class says it."""


class InputError(RankstreamError):
    """A message that cannot be processed. It becomes a dead letter of class `kind`.

    `field` is the first that is wrong; None if the message is wrong as a whole.
    """

    def __init__(self, kind: DeadLetterClass, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.field = field[:_MAX_FIELD] if field is not None else _FIELDS.get(kind)


def problem(field: str, what: str, value: object) -> str:
    """The text `field: what is wrong (value)`, with the value cut: a string in quotes, anything else as JSON has it."""
    field = field[:_MAX_FIELD]
    if isinstance(value, bytes):
        # A character has four bytes at most.
        value = value[: 4 * _MAX_QUOTED].decode("utf-8", "replace")
    if isinstance(value, str):
        return f"{field}: {what} ({value[:_MAX_QUOTED]!r})"
    try:
        text = _begun(value)
    except RecursionError:
        text = type(value).__name__
    except (TypeError, ValueError):
        # Not all that YAML gives is JSON.
        text = str(value)
    return f"{field}: {what} ({text[:_MAX_QUOTED]})"


def _begun(value: object) -> str:
    """The value as JSON, no more of it than is quoted: a large value is not written out for its beginning."""
    text = ""
    for piece in json.JSONEncoder(default=str).iterencode(value):
        text += piece
        if len(text) >= _MAX_QUOTED:
            break
    return text


def invalid(field: str, what: str, value: object) -> InputError:
    """The error for one wrong field, of class `invalid`."""
    return InputError(DeadLetterClass.INVALID, problem(field, what, value), field)


class FieldError(InputError):
    """A query names a field of documents that cannot be used there; `known` are those that can."""

    def __init__(self, where: str, what: str, name: str, known: Iterable[str] = ()) -> None:
        self._parts: Final = where, what, name, (known := sorted(known))
        what = f"{what}; there are {', '.join(known)}" if known else what
        super().__init__(DeadLetterClass.INVALID, problem(where, what, name), where)

    def rename(self, other: Callable[[str], str]) -> Self:
        """The same error with other names of the fields."""
        where, what, name, known = self._parts
        return type(self)(where, what, other(name), map(other, known))


class Reason(StrEnum):
    """Why a part of an answer is missing: a closed list."""

    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    BAD_RESPONSE = "bad_response"
    UNAUTHORIZED = "unauthorized"
    NO_CONTEXT = "no_context"
    NO_COLLECTION = "no_collection"
    REFUSED = "refused"
    DEADLINE = "deadline"
    NO_EMBEDDER = "no_embedder"
    NO_SPARSE_VECTOR = "no_sparse_vector"
    NO_TERMS = "no_terms"
    NO_TOKEN_VECTORS = "no_token_vectors"  # noqa: S105  no secret
    NO_VECTOR = "no_vector"
    PROFILE = "profile"
    RECIPE = "recipe"
    TOO_LARGE = "too_large"


class Blame(StrEnum):
    """The fault that a failure shows."""

    REQUEST = "request"
    BACKEND = "backend"
    CONFIGURATION = "configuration"
    UNKNOWN = "unknown"
    """Only a control request can tell whether the request or the backend is at fault."""


_SUSPECTS: Final = {
    Reason.REFUSED: Blame.REQUEST,
    Reason.UNAUTHORIZED: Blame.CONFIGURATION,
    Reason.NO_COLLECTION: Blame.CONFIGURATION,
    Reason.BAD_RESPONSE: Blame.UNKNOWN,
}
"""The fault by the reason, where it is not the backend's."""


class BackendError(RankstreamError):
    """A call to a backend failed; the result reports `reason`. It is a value, and never changed.

    The message is for logs and for the operator's dead letters, never for results. It names the backend and the
    symptom, and no secret; only Qdrant's own words, of what it refuses, may quote a value of a request.
    `status` is the HTTP status, if there was one. `suspect` is to blame by what the backend said. `serves_others`: it
    answered a control request; None: there was none. `unread`: no server has read the request. `retry_after` are the
    seconds after which the backend asks to be called again, if it does. `quoted` is the server's explanation, which may
    hold a text of the request: it is for dead letters of documents alone.
    """

    usual: ClassVar[Reason]

    def __init__(
        self,
        message: str,
        status: int | None = None,
        reason: Reason | None = None,
        *,
        suspect: Blame | None = None,
        unread: bool = False,
    ) -> None:
        super().__init__(message)
        self.status: Final = status
        self.reason: Final = reason or self.usual
        self.suspect: Final = suspect or _SUSPECTS.get(self.reason, Blame.BACKEND)
        self.unread: Final = unread
        self.serves_others: Final[bool | None] = None
        self.retry_after: Final = 0.0
        self.quoted: Final = ""

    @property
    def blame(self) -> Blame:
        """The fault, by the control request if there was one."""
        if self.serves_others is None:
            return self.suspect
        if self.serves_others:
            return Blame.REQUEST
        return Blame.CONFIGURATION if self.suspect is Blame.REQUEST else Blame.BACKEND

    def but(self, **known: Any) -> Self:
        """The same failure, of which more is known: the attributes of these names."""
        made = type(self).__new__(type(self), *self.args)
        vars(made).update(vars(self), **known)
        return made


class BackendTimeout(BackendError):
    """The backend did not answer in time."""

    usual = Reason.TIMEOUT


class DeadlinePassed(BackendTimeout):
    """The query's deadline passed. The backend was not called, or had too little time to be at fault."""

    usual = Reason.DEADLINE


class BackendUnavailable(BackendError):
    """No connection, an overload (429), or a server error (5xx)."""

    usual = Reason.UNAVAILABLE


class BackendBadResponse(BackendError):
    """An answer that breaks the protocol. It is rejected as a whole, never repaired.

    A `status` of 4xx other than 429 means that the backend refused the request itself. The reason then says why, where
    the backend tells: `unauthorized`, `no_collection` or `refused`.
    """

    usual = Reason.BAD_RESPONSE


class AnswerTooLong(BackendBadResponse):
    """An answer of more bytes than are read; one to a request for less may have fewer."""


class NoTokenVectors(BackendError):
    """The index keeps no token vectors of some of the documents that were to be read. Nothing failed."""

    usual = Reason.NO_TOKEN_VECTORS


class DeliveryError(RankstreamError):
    """Kafka did not accept a transaction, an offset or a membership."""


class RetriableDelivery(DeliveryError):
    """The transaction was aborted and may be retried."""


class FatalDelivery(DeliveryError):
    """The producer is fenced or its state is lost, so the process must end."""


class Unreachable(FatalDelivery):
    """No server is a broker: the reason of each, and the cure."""

    def __init__(self, what: str, cure: str) -> None:
        self.what, self.cure = what, cure
        super().__init__(f"{what}: {cure}")


class Fenced(FatalDelivery):
    """The broker has given a producer's transactional id to a later one."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"fenced: another process with the transactional id {transactional_id} has started, "
            "or an initialisation of this one came late; delivery.replica must differ from replica to replica"
        )


class ConfigError(RankstreamError):
    """The configuration is invalid. The message names every wrong path."""


class IndexInUse(ConfigError):
    """The directory `qdrant.path` is open in another process, as one that runs both flows has it."""


class CacheNotWritable(ConfigError):
    """The directory `cache_dir` can't be written, or has no room. The message names it."""


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
    "^[^@/]*$": "host:port of brokers is expected, such as localhost:9092: no scheme, no user, no path",
}
"""Pattern -> what it says."""


def explain_problem(item: ErrorDetails, root: type[BaseModel]) -> str:
    """The error in words; the value was to be a `root`."""
    path = item["loc"]
    if item["type"] == "extra_forbidden":
        return unknown(str(path[-1]), section_keys(root, path[:-1]))
    context = item.get("ctx", {})
    if (words := _FORMS.get(context.get("pattern", "")) or _EXPECTED.get(item["type"])) is not None:
        return words.format_map(context)
    # A validator of ours has its words behind what pydantic puts before them.
    return item["msg"].removeprefix("Value error, ")


def explain_errors(error: ValidationError, root: type[BaseModel]) -> str:
    """The first problems in words, each behind its path; the value was to be a `root`."""
    found = error.errors()
    problems = ((".".join(map(str, item["loc"])), explain_problem(item, root)) for item in found[:MAX_WORDED])
    return join_first((": ".join(filter(None, each)) for each in problems), len(found[MAX_WORDED:]))


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


def section_keys(root: type[BaseModel], path: Loc) -> list[str]:
    """The keys that the section at `path` takes; none where any name may stand, or no section is."""
    model = next(filter(_is_model, _alternatives(_annotation_at(root, path))), None)
    return sorted(_fields(model)) if model is not None else []


def holds_names(root: type[BaseModel], path: Loc) -> bool:
    """True if the value at `path` is a map whose names are the user's own."""
    return any(get_origin(each) in _MAPS for each in _alternatives(_annotation_at(root, path)))


def _fields(model: type[BaseModel]) -> Mapping[str, FieldInfo]:
    """The fields by the names that they have in documents."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _annotation_at(root: type[BaseModel], path: Loc) -> Any:
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
    for model in models:
        annotations = [field.annotation for field in model.model_fields.values()]
        if any(get_origin(each) is Literal and name in get_args(each) for each in annotations):
            return model
    return next((get_args(each)[1] for each in _alternatives(at) if get_origin(each) in _MAPS), None)


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
