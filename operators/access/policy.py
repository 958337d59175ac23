"""Policy: the source of a query, and the denials that its policy gives.

A denial is the answer to a query, and tells no more than the query itself. Deny wins over allow; an empty list allows
all.
"""

from collections.abc import Sequence

from operators.access.firewall import visible
from schemas.errors import DeadLetterClass, InputError
from schemas.headers import fold_name
from schemas.result import Denial, DenialCode
from schemas.settings.policies import TIERS, FirewallSettings, IdentitySettings, SourcePolicy


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
    header = identity.header or ""
    values = [value for name, value in headers if fold_name(name) == fold_name(header)]
    if len(values) > 1:
        raise InputError(DeadLetterClass.INVALID, f"header {header}: expected once, found {len(values)} times", header)
    try:
        return values[0].decode("utf-8") or None if values else None
    except UnicodeDecodeError:
        # The decoder's error quotes the value.
        wrong = f"header {header}: expected UTF-8, found other bytes"
        raise InputError(DeadLetterClass.INVALID, wrong, header) from None


def judge(
    policy: SourcePolicy,
    firewall: FirewallSettings,
    destination: str,
    collection: str | None,
    namespace: str,
    operation: str,
    profile: str,
) -> Denial | None:
    """The first reason to deny a query, in the order of the codes; None if it is permitted.

    A `collection` of None stands for the whole destination.
    """
    if not policy.read:
        return Denial(DenialCode.SOURCE_NOT_PERMITTED_TO_READ, "this source may not read")
    deny, modes = policy.deny, policy.retrieval_modes
    # The policy's namespaces hold with the firewall off, too.
    for code, field, name, allowed, denied in (
        (DenialCode.DESTINATION_NOT_ALLOWED, "destination", destination, policy.destinations, deny.destinations),
        (DenialCode.DESTINATION_NOT_ALLOWED, "collection", collection, policy.collections, deny.collections),
        (DenialCode.OPERATION_NOT_ALLOWED, "operation", operation, policy.operations, deny.operations),
        (DenialCode.RETRIEVAL_MODE_NOT_ALLOWED, "retrieval mode", profile, modes, deny.retrieval_modes),
        (DenialCode.POLICY_DENIED, "profile", profile, policy.allowed_profiles, deny.profiles),
        (DenialCode.RETRIEVAL_FIREWALL_DENIED, "namespace", namespace, policy.namespaces, deny.namespaces),
    ):
        if name in denied or (allowed and name not in allowed):
            if name is None:
                return Denial(code, "no collection is named, and this source must name one")
            return Denial(code, f"{field} {name!r} is not allowed for this source")
    if not firewall.enabled:
        return None
    if policy.clearance is not None and policy.clearance not in TIERS:
        return Denial(DenialCode.RETRIEVAL_FIREWALL_DENIED, "the clearance of this source is not a known tier")
    if firewall.namespaces.get(namespace, TIERS[0]) not in visible(policy.clearance):
        above = f"namespace {namespace!r} is above the clearance of this source"
        return Denial(DenialCode.RETRIEVAL_FIREWALL_DENIED, above)
    return None
