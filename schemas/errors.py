"""The error tree: whose fault it is decides what happens.

RankstreamError
├── InputError        the message's fault    -> a dead letter; the next message is unaffected
├── BackendError      a backend's fault      -> the query goes on without it, and its answer says so
│   ├── BackendTimeout
│   │   └── DeadlinePassed
│   ├── BackendUnavailable
│   └── BackendBadResponse
├── DeliveryError     Kafka's fault          -> never swallowed
│   ├── RetriableDelivery                       the transaction is aborted and tried again
│   └── FatalDelivery                           the process ends non-zero; its successor re-reads
│       └── Fenced
└── ConfigError       the operator's fault   -> exit code 2 before anything starts
"""

from enum import StrEnum
from typing import Final

_MAX_QUOTED: Final = 80


class RankstreamError(Exception):
    """Every error that this project raises on purpose."""


class DeadLetterClass(StrEnum):
    """Why a message could not become a query: a closed list."""

    NOT_JSON = "not_json"
    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED_VERSION = "unsupported_version"
    VECTOR_DIMENSION = "vector_dimension"
    CURSOR_INVALID = "cursor_invalid"
    CURSOR_EXPIRED = "cursor_expired"
    INTERNAL = "internal"


class InputError(RankstreamError):
    """A message that can't be processed; it ends as a dead letter of class `kind`."""

    def __init__(self, kind: DeadLetterClass, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def problem(field: str, what: str, value: object) -> str:
    """A named problem, `field: what is wrong (value)`, the value cut short."""
    try:
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    except RecursionError:
        text = type(value).__name__
    return f"{field}: {what} ({text[:_MAX_QUOTED]!r})"


def invalid(field: str, what: str, value: object) -> InputError:
    """The error for one wrong field, of class `invalid`."""
    return InputError(DeadLetterClass.INVALID, problem(field, what, value))


class Reason(StrEnum):
    """Why a part of an answer is missing: a closed list."""

    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    BAD_RESPONSE = "bad_response"
    DEADLINE = "deadline"
    NO_EMBEDDER = "no_embedder"
    NO_TERMS = "no_terms"
    NO_VECTOR = "no_vector"
    PROFILE = "profile"
    RECIPE = "recipe"
    TOO_LARGE = "too_large"


class BackendError(RankstreamError):
    """A call to Qdrant, an embedder or a reranker failed; `reason` is what the answer reports.

    The message is for logs and spans: it names the backend and the symptom, never a query, a document or a secret.
    `status` is the HTTP status where there was one.
    """

    reason: Reason

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BackendTimeout(BackendError):
    """No answer in time."""

    reason = Reason.TIMEOUT


class DeadlinePassed(BackendTimeout):
    """The query's own time is over; the backend wasn't asked, or not long enough to blame it."""

    reason = Reason.DEADLINE


class BackendUnavailable(BackendError):
    """No connection, an overload (429) or a server error (5xx)."""

    reason = Reason.UNAVAILABLE


class BackendBadResponse(BackendError):
    """An answer that breaks the protocol: rejected whole, never padded or guessed at.

    A `status` of 4xx other than 429 means that the request itself was refused.
    """

    reason = Reason.BAD_RESPONSE


class DeliveryError(RankstreamError):
    """Kafka did not take a transaction, an offset or a membership."""


class RetriableDelivery(DeliveryError):
    """The transaction was aborted and may be tried again."""


class FatalDelivery(DeliveryError):
    """The producer is fenced, or its state is lost: the process must end."""


class Fenced(FatalDelivery):
    """The broker has given a producer's transactional id to a later one."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"fenced: another process with the transactional id {transactional_id} has started, "
            "or an initialisation of this one came late; delivery.replica must differ from replica to replica"
        )


class ConfigError(RankstreamError):
    """The configuration can't be used; the message names every path that is wrong."""
