"""The access filter: which documents a query may see, as conditions of a search and as a check of each record.

- A document is hidden by the first of these that applies: it is of another namespace; it does not pass the filters of
  the policy; it has a blocked label; its tier is above the clearance; it lacks a required label. Without a firewall,
  only the namespace and the filters count.
- A namespace is a string: one that is missing, or is of another type, is no query's.
- A classification that is missing or null is public. An unknown classification hides the document, and so does a
  value that is no string.
- Labels are a list, of which the strings count, or one string; any other value counts as no labels.
- The conditions hide a document if and only if the check does, as long as its namespace and its classification are
  strings or missing: Qdrant matches a list by any of its elements, and there the check alone hides it.
- A filter on a field with an index of another kind than its values may hide less than the check, which hides it then.
- `find_forbidden` checks the records that Qdrant returns. It finds none as long as Qdrant applies the conditions; the
  stages remove such records from the answer and count them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from operators.access.filters import Condition, condition, fields_of, matches_filter
from schemas.document import CLASSIFICATION, LABELS, NAMESPACE
from schemas.filters import AnyFilter
from schemas.settings.policies import TIERS, FirewallSettings, SourcePolicy, Tier

PUBLIC: Final = TIERS[0]

GUARDED: Final = frozenset({NAMESPACE, CLASSIFICATION, LABELS})


def visible(clearance: str | None) -> tuple[Tier, ...]:
    """The tiers that a clearance may see, lowest first; without one, public. Raises ValueError for an unknown one."""
    return TIERS[: TIERS.index(PUBLIC if clearance is None else clearance) + 1]


@dataclass(frozen=True, slots=True)
class AccessFilter:
    """The documents that one query may see: a namespace's with these tiers, none blocked and all required labels.

    `tiers` is None without a firewall: all the namespace's documents may be seen that pass the `filters`.
    """

    namespace: str
    tiers: tuple[Tier, ...] | None = None
    blocked: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    filters: tuple[AnyFilter, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The payload fields that the check needs."""
        own = frozenset({NAMESPACE}) if self.tiers is None else GUARDED
        return own.union(fields_of(self.filters)) if self.filters else own

    @property
    def hides(self) -> bool:
        """True if the query may not see all documents of its namespace."""
        return self.tiers is not None or bool(self.filters)

    def conditions(self, write: Callable[[AnyFilter], Condition] = condition) -> list[Condition]:
        """Qdrant's conditions for the `must` list of every leg; `write` writes a filter as the collection needs it."""
        return [{"key": NAMESPACE, "match": {"value": self.namespace}}, *self.visible(write)]

    def visible(self, write: Callable[[AnyFilter], Condition] = condition) -> list[Condition]:
        """The conditions about tier, labels and the policy's filters alone, for any namespace."""
        conditions = list(map(write, self.filters))
        if self.tiers is None:
            return conditions
        if self.blocked:
            conditions.append({"must_not": [{"key": LABELS, "match": {"any": list(self.blocked)}}]})
        # A document without a classification is public, and every clearance sees public documents.
        cleared = {"key": CLASSIFICATION, "match": {"any": list(self.tiers)}}
        conditions.append({"should": [cleared, {"is_empty": {"key": CLASSIFICATION}}]})
        conditions += [{"key": LABELS, "match": {"value": label}} for label in self.required]
        return conditions

    def permits(self, payload: Mapping[str, Any]) -> bool:
        """True if the query may see a record with this payload, which must hold the fields `reads`."""
        if payload.get(NAMESPACE) != self.namespace or not all(matches_filter(each, payload) for each in self.filters):
            return False
        if self.tiers is None:
            return True
        tier, labels = payload.get(CLASSIFICATION), _labels(payload.get(LABELS))
        if not labels.isdisjoint(self.blocked):
            return False
        return (PUBLIC if tier is None else tier) in self.tiers and labels.issuperset(self.required)


def visibility(payload: Mapping[str, Any]) -> tuple[object, list[str]]:
    """Tier and labels of a document: the same queries of a namespace see all documents that have the same."""
    tier = payload.get(CLASSIFICATION)
    return PUBLIC if tier is None else tier, sorted(_labels(payload.get(LABELS)))


def access_filter(firewall: FirewallSettings, policy: SourcePolicy, namespace: str) -> AccessFilter:
    """The access filter of a query whose source has this policy.

    Raises ValueError for an unknown clearance; `policy.judge` denies such a query before.
    """
    filters = tuple(policy.filters)
    if not firewall.enabled:
        return AccessFilter(namespace, filters=filters)
    return AccessFilter(
        namespace,
        visible(policy.clearance),
        _union(firewall.blocked_labels, policy.blocked_labels),
        _union(firewall.required_labels, policy.required_labels),
        filters,
    )


def _union(*lists: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({label for labels in lists for label in labels}))


def _labels(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset((value,))
    return frozenset(each for each in value if isinstance(each, str)) if isinstance(value, list) else frozenset()


Payload = Mapping[str, Any]

_namespace_of: Final = itemgetter(NAMESPACE)


def find_forbidden(access_filter: AccessFilter | None, ids: Iterable[str], payloads: Collection[Payload]) -> set[str]:
    """The ids of the records that the query may not see, all without an access filter; each id has its payload."""
    if access_filter is None:
        return set(ids)
    if not access_filter.hides and _all_of(access_filter.namespace, payloads):
        return set()
    permits = access_filter.permits
    return {id_ for id_, payload in zip(ids, payloads, strict=True) if not permits(payload)}


def _all_of(namespace: str, payloads: Iterable[Payload]) -> bool:
    # Nearly always so, and checked for some 200 hits of every query: in C, it costs less than 1 % of a query.
    try:
        return {*map(_namespace_of, payloads)} <= {namespace}
    except (KeyError, TypeError):
        # One has no namespace, or a list for one.
        return False
