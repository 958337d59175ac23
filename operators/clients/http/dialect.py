"""Wording of a backend's answers: errors by status, entries by index, numbers of 32 bits.

Without a dialect of its own, a backend's status says all. Not every server tells the request's fault from its own: one
text that it cannot digest may be a 500, or an answer with nulls for numbers. So a failure is the fault of

- the request, if the backend refuses it by its status or by its words; unless it refuses a control request, too: then
  its configuration is at fault, and to divide the request would not help;
- nobody yet (`Blame.UNKNOWN`), if an answer is wrong, or its status says nothing else. A *control request* tells: a
  small one, of the same form, that a backend in order answers. If it is answered, the request is at fault, otherwise
  the backend;
- the backend or its configuration otherwise: a lost connection, an overload, a wrong key.
"""

import math
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson

from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, Blame, Reason
from schemas.fields import MAX_FLOAT32

UNAUTHORIZED: Final = frozenset({401, 403})
"""Statuses by which a server refuses the key, and not the request."""

REFUSALS: Final = frozenset({400, 413, 422})
"""Statuses that refuse one request for its content: the backend is alive."""

_UNREAD: Final = frozenset({429, 503, 521, 522, 523, 525, 526, 529, 530})
"""Statuses with which no server has read the request: it is overloaded, or a proxy such as Cloudflare's lacks it."""

_OUTAGES: Final = _UNREAD | {502, 504, 520, 524}
"""Statuses of 4xx and 5xx of which the backend is at fault for sure, and which may pass."""


def by_status(name: str, status: int, words: str = "", reason: Reason | None = None) -> BackendError:
    """The error that a status means: 408 is a time-out, 429 and 5xx are outages, others are bad answers.

    `reason` is that of a bad answer, where the key is not refused.
    """
    message = f"{name}: status {status}" + (f": {words}" if words else "")
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return BackendTimeout(message, status)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        suspect = Blame.BACKEND if status in _OUTAGES else Blame.UNKNOWN
        return BackendUnavailable(message, status, suspect=suspect, unread=status in _UNREAD)
    reason = Reason.UNAUTHORIZED if status in UNAUTHORIZED else reason
    return BackendBadResponse(message, status, reason, suspect=Blame.REQUEST if status in REFUSALS else None)


@dataclass(frozen=True, slots=True)
class Dialect:
    """The meaning of a backend's answers without success.

    `error` makes the error of an answer by the backend's name, the status and the first `read` bytes of the body, which
    it may quote where that is no text of a user. `subject` names the thing that a request's path asks about, if several
    can fail apart. `failure` is the status of an answer that tells of a failure in its JSON alone.
    """

    read: int = 0
    error: Callable[[str, int, bytes], BackendError] = lambda name, status, _: by_status(name, status)
    subject: Callable[[str], str] = lambda _: ""
    failure: Callable[[object], int | None] = lambda _: None


PLAIN: Final = Dialect()


_EXPLAINED: Final = "error", "message", "detail", "msg"


def of_model(name: str, status: int, body: bytes) -> BackendError:
    """The error of a model server, with its explanation: an object's member, the first of a list, or a plain text."""
    try:
        said = orjson.loads(body)
    except orjson.JSONDecodeError:
        said = body.decode("utf-8", "replace")
    while isinstance(said, dict | list):
        held = said if isinstance(said, dict) else dict(enumerate(said))
        said = next((held[key] for key in (*_EXPLAINED, 0) if held.get(key)), "")
    return by_status(name, status).but(quoted=" ".join(str(said).split())[:300])


_ANSWERS: Final = "data", "results", "choices", "embeddings", "rankings", "output", "content"
"""Members of model servers' answers that hold what was asked for."""

_STATUSES: Final = frozenset(map(str, range(400, 600)))


def failure_of_model(answer: object) -> int | None:
    """The status of a failure in an answer of success, which gateways send before they hear of the failure.

    It is the `code` of an `error`, or beside it, where the answer holds nothing else that was asked for.
    """
    if not isinstance(answer, dict) or not answer.get("error") or any(answer.get(name) for name in _ANSWERS):
        return None
    objects = [each for each in (answer["error"], answer) if isinstance(each, dict)]
    codes = (str(each.get(name)) for each in objects for name in ("code", "status", "status_code"))
    return next((int(code) for code in codes if code in _STATUSES), None)


MODEL: Final = Dialect(read=4096, error=of_model, failure=failure_of_model)
"""The dialect of embedders, rerankers and chat models."""


def fit_float32(numbers: Collection[float]) -> bool:
    """True if all numbers, each an int or a float, are finite and of 32 bits, as Qdrant and models store them."""
    return not numbers or (not any(map(math.isnan, numbers)) and max(max(numbers), -min(numbers)) <= MAX_FLOAT32)


def by_index(entries: object, key: str, count: int, *, backend: str, ordered: bool = False) -> dict[int, Any]:
    """Read a list of objects {index, `key`} as index -> value; an index may be missing.

    `ordered`: in a list of `count` entries, one without an index has that of its place, for some servers leave out
    each 0. Raises BackendBadResponse if it is anything else, or an index repeats or isn't one of 0..`count` - 1.
    """
    if not isinstance(entries, list):
        raise BackendBadResponse(f"{backend}: the entries are not a list")
    # Nearly always all is well, and all of them together show it.
    with suppress(KeyError, TypeError, IndexError):
        found = {entry["index"]: entry[key] for entry in entries}
        if len(found) == len(entries) and set(map(type, found)) <= {int} and found.keys() <= set(range(count)):
            return found
    found = {}
    for place, entry in enumerate(entries):
        if not isinstance(entry, dict) or key not in entry:
            raise BackendBadResponse(f"{backend}: an entry without {key}")
        index = entry.get("index")
        if index is None and ordered and len(entries) == count:
            index = place
        if type(index) is not int or not 0 <= index < count:
            raise BackendBadResponse(f"{backend}: an index that was not asked for")
        if index in found:
            raise BackendBadResponse(f"{backend}: an index repeats")
        found[index] = entry[key]
    return found
