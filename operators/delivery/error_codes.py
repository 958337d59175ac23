"""Kafka's error codes: what each means for a delivery.

Rules:
- A `RefusalCode` is about a record itself: the same record is refused again, another form of it may be taken.
- What is passing ends by itself, by another producer, or by another membership: the delivery is tried again.
- Every other code ends the process, also one that is not known here: to try again would change nothing.
- Codes below -1 are a client's own; the client says which of them are fatal.
- A code that a setting mends has a cure, which every message with the code says.
"""

from enum import IntEnum
from typing import Final

from kafka.errors import RetriableError, kafka_errors

from schemas.errors import DeadLetterClass


class RefusalCode(IntEnum):
    """The codes by which a broker refuses a record for itself."""

    MESSAGE_TOO_LARGE = 10
    RECORD_LIST_TOO_LARGE = 18
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    INVALID_RECORD = 87

    @property
    def of_size(self) -> bool:
        """True if the record is too large."""
        return self in {RefusalCode.MESSAGE_TOO_LARGE, RefusalCode.RECORD_LIST_TOO_LARGE}

    @property
    def remedy(self) -> str | None:
        """The change that lets such records be taken, where the broker's settings are the cause."""
        return _REMEDIES.get(self)

    @property
    def kind(self) -> DeadLetterClass:
        """The class of a dead letter in place of a record that is refused."""
        return DeadLetterClass.TOO_LARGE if self.of_size else DeadLetterClass.INTERNAL

    @property
    def why(self) -> str:
        """The fault of a record, in words for its sender."""
        return "is larger than the topic takes" if self.of_size else f"is refused by the topic: {self.name}"

    def message(self, topic: str) -> str:
        """The message about a record that `topic` refuses."""
        if self.of_size:
            return f"the record for {topic} is larger than its topic takes"
        return f"{topic} refuses the record: {self.name}"


_REMEDIES: Final = {
    RefusalCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: (
        "set kafka.compression to null if the broker takes no compressed records"
    ),
    RefusalCode.POLICY_VIOLATION: "look at the policies and quotas of the service",
}


_PASSING: Final = frozenset(
    {
        *(code for code, error in kafka_errors.items() if issubclass(error, RetriableError)),
        2,  # CORRUPT_MESSAGE: the network has damaged the batch.
        8,  # BROKER_NOT_AVAILABLE
        *(22, 25, 27),  # ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS: another membership begins.
        # OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_ID_MAPPING, UNKNOWN_PRODUCER_ID, TRANSACTION_ABORTABLE: another
        # producer continues.
        *(45, 49, 59, 120),
        *(46, 55),  # DUPLICATE_SEQUENCE_NUMBER, OPERATION_NOT_ATTEMPTED: the client handles them.
        133,  # SHARE_SESSION_LIMIT_REACHED
    }
)
"""The codes after which a delivery is tried again: those that the protocol calls retriable, and some more."""

FENCED: Final = frozenset({47, 90})
"""INVALID_PRODUCER_EPOCH and PRODUCER_FENCED: a later producer has the transactional id."""

_PERMISSION: Final = "allow it: docs/how-to/managed-kafka.md lists the permissions"
_OWN_TOOLS: Final = "create the topics with the service's own tools: docs/how-to/managed-kafka.md says how"

_CURES: Final = {
    12: "lower kafka.offset_metadata to the broker's offset.metadata.max.bytes",
    26: "set kafka.session_timeout between the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
    29: _PERMISSION,
    30: _PERMISSION,
    31: _PERMISSION,
    35: "the broker lacks a feature of Kafka: `rankstream check` says which, and what follows",
    37: "set kafka.partitions to a number that the cluster takes",
    38: "set kafka.replication_factor to a number that the cluster takes",
    40: _OWN_TOOLS,
    44: _OWN_TOOLS,
    50: "lower kafka.transaction_timeout to the broker's transaction.max.timeout.ms",
    53: "allow the transactional ids, or set delivery.mode to at_least_once",
    76: "set kafka.compression to null",
    89: "raise delivery.transaction_interval",
}

_NO_ERROR: Final = 0
_REFUSALS: Final = frozenset(RefusalCode)


def curing(message: str, code: int | None) -> str:
    """The message about a code, with the cure if there is one."""
    cure = _CURES.get(code) if code is not None else None
    return message if cure is None else f"{message}; {cure}"


def refusal_code(code: int | None) -> RefusalCode | None:
    """The code as one of a refusal; None if it is none."""
    return RefusalCode(code) if code in _REFUSALS else None


def ends(code: int) -> bool:
    """True if the process must end by this code, where it isn't about a record."""
    return code >= -1 and code != _NO_ERROR and code not in _PASSING
