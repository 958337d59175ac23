"""How a backend words its errors. Without a dialect of its own, a status says all."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, BackendUnavailable, Reason

UNAUTHORIZED: Final = frozenset({401, 403})
"""Statuses by which a server refuses the key, and not the request."""


def by_status(name: str, status: int, said: str = "") -> BackendError:
    """The error that a status means: 408 is a time-out, 429 and 5xx are outages, others are bad answers."""
    message = f"{name}: status {status}" + (f": {said}" if said else "")
    if status == HTTPStatus.REQUEST_TIMEOUT:
        return BackendTimeout(message, status)
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return BackendUnavailable(message, status)
    return BackendBadResponse(message, status, Reason.UNAUTHORIZED if status in UNAUTHORIZED else None)


def _status_alone(name: str, status: int, _: bytes) -> BackendError:
    return by_status(name, status)


def _one_subject(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the answers without success of a backend mean.

    `error` makes the error of an answer of the backend by its name, its status and the first `read` bytes of its body,
    which it may quote where that is no text of a user. `subject` says what a request's path asks about, if the backend
    holds several things that can fail apart.
    """

    read: int = 0
    error: Callable[[str, int, bytes], BackendError] = _status_alone
    subject: Callable[[str], str] = _one_subject


PLAIN: Final = Dialect()
