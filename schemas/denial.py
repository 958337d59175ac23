"""A denial: why a policy refuses a query. A denied query gets a result, never a dead letter."""

from enum import StrEnum
from typing import NamedTuple


class DenialCode(StrEnum):
    """What was refused: a closed list. If several apply, the first in this order is reported."""

    SOURCE_NOT_PERMITTED_TO_READ = "source_not_permitted_to_read"
    DESTINATION_NOT_ALLOWED = "destination_not_allowed"
    OPERATION_NOT_ALLOWED = "operation_not_allowed"
    RETRIEVAL_MODE_NOT_ALLOWED = "retrieval_mode_not_allowed"
    POLICY_DENIED = "policy_denied"
    RETRIEVAL_FIREWALL_DENIED = "retrieval_firewall_denied"


class Denial(NamedTuple):
    """A refusal. Its reason is one sentence; it names what the query asked for, and nothing that is allowed."""

    code: DenialCode
    reason: str
