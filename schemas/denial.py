"""A denial: why a source is refused an answer; a result like any other, never a dead letter."""

from enum import StrEnum
from typing import NamedTuple


class DenialCode(StrEnum):
    """What was refused, a closed list; of several that apply, the first in this order."""

    SOURCE_NOT_PERMITTED_TO_READ = "source_not_permitted_to_read"
    DESTINATION_NOT_ALLOWED = "destination_not_allowed"
    OPERATION_NOT_ALLOWED = "operation_not_allowed"
    RETRIEVAL_MODE_NOT_ALLOWED = "retrieval_mode_not_allowed"
    POLICY_DENIED = "policy_denied"
    RETRIEVAL_FIREWALL_DENIED = "retrieval_firewall_denied"


class Denial(NamedTuple):
    """A refusal; the reason is one sentence, which names what was asked and nothing that is allowed."""

    code: DenialCode
    reason: str
