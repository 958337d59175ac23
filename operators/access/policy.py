"""Policy: the source of a query, and the denials that its policy gives.

A denial is the answer to a query, and tells no more than the query itself. Deny wins over allow; an empty list allows
all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from operators.access.firewall import visible
from schemas.errors import DeadLetterClass, InputError
from schemas.headers import fold_name
from schemas.result import Denial, DenialCode
from schemas.settings.policies import TIERS, FirewallSettings, IdentitySettings, SourcePolicy


@dataclass(frozen=True, slots=True)
class RequestedAccess:
    """The fields of a query that policies decide on, with defaults filled in.

    A `source` of None is unknown. A `collection` of None stands for the whole destination.
    """

    source: str | None
    destination: str
    collection: str | None
    namespace: str
    operation: str
    profile: str


def identify(
    identity: IdentitySettings, event_source: str | None, headers: Sequence[tuple[str, bytes]], topic: str
) -> str | None:
    """The source of a query: by the event, its topic or a header, as `identity.by` says; None if it is unknown.

    An absent or empty header is an unknown source. ASCII's case in names of headers doesn't count. Raises InputError
    `invalid` for a header that is repeated or isn't UTF-8.
    """
    if identity.by == "event":
        return event_source
    if identity.by == "topic":
        return identity.topics.get(topic)
    return _from_header(identity.header or "", headers)


def judge(policy: SourcePolicy, firewall: FirewallSettings, asked: RequestedAccess) -> Denial | None:
    """The first reason to deny the query, in the order of the codes; None if it is permitted."""
    if not policy.read:
        return Denial(DenialCode.SOURCE_NOT_PERMITTED_TO_READ, "this source may not read")
    deny, profile = policy.deny, asked.profile
    # The policy's namespaces hold with the firewall off, too.
    for code, field, name, allowed, denied in (
        (DenialCode.DESTINATION_NOT_ALLOWED, "destination", asked.destination, policy.destinations, deny.destinations),
        (DenialCode.DESTINATION_NOT_ALLOWED, "collection", asked.collection, policy.collections, deny.collections),
        (DenialCode.OPERATION_NOT_ALLOWED, "operation", asked.operation, policy.operations, deny.operations),
        (
            DenialCode.RETRIEVAL_MODE_NOT_ALLOWED,
            "retrieval mode",
            profile,
            policy.retrieval_modes,
            deny.retrieval_modes,
        ),
        (DenialCode.POLICY_DENIED, "profile", profile, policy.allowed_profiles, deny.profiles),
        (DenialCode.RETRIEVAL_FIREWALL_DENIED, "namespace", asked.namespace, policy.namespaces, deny.namespaces),
    ):
        if name in denied or (allowed and name not in allowed):
            if name is None:
                return Denial(code, "no collection is named, and this source must name one")
            return Denial(code, f"{field} {name!r} is not allowed for this source")
    return _check_clearance(policy, firewall, asked) if firewall.enabled else None


def _from_header(header: str, headers: Sequence[tuple[str, bytes]]) -> str | None:
    values = [value for name, value in headers if fold_name(name) == fold_name(header)]
    if len(values) > 1:
        raise InputError(DeadLetterClass.INVALID, f"header {header}: expected once, found {len(values)} times", header)
    try:
        return values[0].decode("utf-8") or None if values else None
    except UnicodeDecodeError:
        # The decoder's error quotes the value.
        wrong = f"header {header}: expected UTF-8, found other bytes"
        raise InputError(DeadLetterClass.INVALID, wrong, header) from None


def _check_clearance(policy: SourcePolicy, firewall: FirewallSettings, asked: RequestedAccess) -> Denial | None:
    code = DenialCode.RETRIEVAL_FIREWALL_DENIED
    if policy.clearance is not None and policy.clearance not in TIERS:
        return Denial(code, "the clearance of this source is not a known tier")
    if firewall.namespaces.get(asked.namespace, TIERS[0]) not in visible(policy.clearance):
        return Denial(code, f"namespace {asked.namespace!r} is above the clearance of this source")
    return None
