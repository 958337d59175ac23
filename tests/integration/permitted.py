"""The permitted answers to a query, read from policies and documents by brute force, apart from the code."""

import time
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.integration.conversation import NEVER, Asked, Conversation, Written

LATE = 4_102_444_800
"""A time at which a document expires when this is over."""

Policy = Mapping[str, Any]
Name = tuple[str, str | None, str, str]
"""Destination, collection, namespace and id of a document."""

TIERS = ("public", "internal", "confidential", "restricted")
PROFILES = ("fast", "balanced", "deep")
COLLECTIONS = {("default", None): "documents", ("archive", None): "documents", ("default", "notes"): "documents-notes"}

PLAIN = (
    *("source", "destination", "collection", "profile", "namespace", "subject", "actor_type", "filters", "order_by"),
    *("limit", "recipe", "overrides", "rerank", "include_reflections", "reflections_only", "reflection_boost"),
    *("explain", "debug", "record", "current_cycle", "return", "group_by", "group_size"),
    "like",
)
DEFAULTS = {"destination": "default", "namespace": "default", "profile": "balanced", "recipe": "hybrid", "rerank": True}


def scope(query: Asked) -> dict[str, Any]:
    """Everything of the query but text, vector, cursor and clock that may change its answer."""
    event = query.event
    plain = {name: event.get(name, DEFAULTS.get(name)) for name in PLAIN}
    plain |= {"source": query.source, "limit": min(event.get("limit") or 20, 200), "filters": event.get("filters", [])}
    for name in ("reflections_only", "explain", "debug", "record"):
        plain[name] = event.get(name, False)
    return plain


def order(query: Asked) -> dict[str, Any]:
    """The part of the scope that the order of the results depends on."""
    return {name: value for name, value in scope(query).items() if name not in {"limit", "explain", "debug", "return"}}


def paged(query: Asked) -> dict[str, Any]:
    """The scope, with the page and the clock that were asked for."""
    return {**scope(query), "cursor": query.event.get("cursor"), "now": query.event.get("now")}


def words(query: Asked) -> tuple[str | None, Any]:
    """The query's text and vector."""
    text = query.event.get("text")
    return unicodedata.normalize("NFC", text) if text and text.strip() else None, query.event.get("vector")


def denial(policy: Policy, firewall: Policy, query: Asked) -> str | None:
    """The code by which this query must be refused; None: it must not be."""
    event, deny = query.event, policy.get("deny", {})

    def refused(name: str, allowed: str, denied: str) -> bool:
        return name in deny.get(denied, []) or (bool(policy.get(allowed)) and name not in policy[allowed])

    part = event.get("collection")
    profile = event["profile"] if event.get("profile") in PROFILES else "balanced"
    if policy.get("read") is False:
        return "source_not_permitted_to_read"
    if refused(event.get("destination", "default"), "destinations", "destinations"):
        return "destination_not_allowed"
    if (part is None and policy.get("collections")) or (
        part is not None and refused(part, "collections", "collections")
    ):
        return "destination_not_allowed"
    if refused("read", "operations", "operations"):
        return "operation_not_allowed"
    if refused(profile, "retrieval_modes", "retrieval_modes"):
        return "retrieval_mode_not_allowed"
    if refused(profile, "allowed_profiles", "profiles"):
        return "policy_denied"
    namespace = event.get("namespace", "default")
    clearance = policy.get("clearance", "public")
    if refused(namespace, "namespaces", "namespaces"):
        return "retrieval_firewall_denied"
    if not firewall["enabled"]:
        return None
    if clearance not in TIERS:
        return "retrieval_firewall_denied"
    needed = firewall["namespaces"].get(namespace, "public")
    return "retrieval_firewall_denied" if TIERS.index(needed) > TIERS.index(clearance) else None


def visible(policy: Policy, firewall: Policy, document: Mapping[str, Any]) -> bool:
    """True if this policy lets a document be seen, by its own filters, the document's tier and its labels."""
    if not all(_passes(each, document) for each in policy.get("filters", [])):
        return False
    if not firewall["enabled"]:
        return True
    tier = document.get("classification")
    labels = set(document.get("labels") or [])
    blocked = {*firewall["blocked_labels"], *policy.get("blocked_labels", [])}
    required = {*firewall["required_labels"], *policy.get("required_labels", [])}
    cleared = TIERS[: TIERS.index(policy.get("clearance", "public")) + 1]
    return (tier is None or tier in cleared) and not labels & blocked and required <= labels


def wanted(event: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    """True if a document is of the query's subject and actor, and passes its filters."""
    scoped = all(event.get(name) in (None, document.get(name)) for name in ("subject", "actor_type"))
    if event.get("reflections_only") and document.get("type") != "reflection":
        return False
    if event.get("include_reflections") is False and document.get("type") == "reflection":
        return False
    return scoped and all(_passes(each, document) for each in event.get("filters", []))


def _passes(each: Mapping[str, Any], document: Mapping[str, Any]) -> bool:
    match each:
        case {"any_of": [*several]}:
            return any(_passes(one, document) for one in several)
        case {"all_of": [*several]}:
            return all(_passes(one, document) for one in several)
        case {"none_of": [*several]}:
            return not any(_passes(one, document) for one in several)
    wants, value = each["value"], document.get(each["field"])
    match each["op"]:
        case "nested":
            return any(all(_passes(one, part) for one in wants) for part in value or [])
        case "eq":
            return bool(value == wants)
        case "any_of":
            return any(one in wants for one in (value if isinstance(value, list) else [value]))
        case "none_of":
            return not any(one in wants for one in (value if isinstance(value, list) else [value]))
        case "exists":
            return (value not in (None, [])) is wants
        case "range":
            return value is not None and wants["gte"] <= value < wants["lt"]
        case "prefix":
            return isinstance(value, str) and value.startswith(wants)
    raise AssertionError(each["op"])


_ALL = ("classification", "labels", "subject")


@dataclass
class World:
    """Every version of every document, in the order in which they were sent."""

    conversation: Conversation
    versions: dict[Name, list[Written]] = field(default_factory=dict)
    by_revision: dict[int, Name] = field(default_factory=dict)
    forgotten: int = 0
    patches: set[int] = field(default_factory=set)
    """Revisions that are patches."""

    _wall: float = field(default_factory=lambda: time.time() - time.monotonic())
    _at: dict[tuple[str, str | None, str], list[Name]] = field(default_factory=dict)
    _moves: dict[tuple[str, str], list[tuple[Name, Written]]] = field(default_factory=dict)
    _acknowledged: dict[int, float] = field(default_factory=dict)

    def write(self, events: list[dict[str, Any]]) -> list[Written]:
        """Send these versions; a patch is noted as the whole document, and not sent if that is gone or will expire."""
        made: dict[Name, dict[str, Any]] = {}
        sent, wholes = [], []
        for event in events:
            name = (event["destination"], event.get("collection"), event["namespace"], event["id"])
            whole = event
            if event["op"] == "patch":
                before = made.get(name) or self.versions[name][-1].event
                if before["op"] == "delete" or before.get("expires_at", LATE) < LATE:
                    continue
                self.patches.add(event["rev"])
                whole = {key: each for key, each in {**before, **event, "op": "upsert"}.items() if each is not None}
            made[name] = whole
            sent.append(event)
            wholes.append(whole)
        written = self.conversation.write(sent)
        for each, event in zip(written, wholes, strict=True):
            each.event = event
            name = (event["destination"], event.get("collection"), event["namespace"], event["id"])
            if name not in self.versions:
                self._at.setdefault(name[:3], []).append(name)
            self.versions.setdefault(name, []).append(each)
            self.by_revision[event["rev"]] = name
            self._moves.setdefault((COLLECTIONS[name[:2]], name[2]), []).append((name, each))
        return written

    def forget(self, place: tuple[str, str | None], namespace: str) -> None:
        """Delete all documents of a namespace by one event, and wait until that is done: each has its deletion then."""
        destination, part = place
        named = {"destination": destination, "namespace": namespace, **({"collection": part} if part else {})}
        [written] = self.conversation.write([{"op": "delete_where", **named}])
        for name in self._at.get((*place, namespace), []):
            self.forgotten += 1
            gone = {"op": "delete", "id": name[3], "rev": -self.forgotten, **named}
            each = Written(gone, written.sent, written.partition, written.offset, written.timestamp)
            self.versions[name].append(each)
            self._moves.setdefault((COLLECTIONS[place], namespace), []).append((name, each))
        self.conversation.wait(lambda: self.conversation.acknowledged(written, COLLECTIONS[place]) < NEVER)

    def acknowledged(self, name: Name, version: Written) -> float:
        """The time when this version was seen in a committed watermark."""
        revision = version.event["rev"]
        if revision not in self._acknowledged:
            at = self.conversation.acknowledged(version, COLLECTIONS[name[:2]])
            if at == NEVER:
                return at
            self._acknowledged[revision] = at
        return self._acknowledged[revision]

    def true(self, name: Name, since: float, until: float) -> list[Written]:
        """The versions of a document that may have been there at some moment of that span, deletions too."""
        versions = self.versions[name]
        gone = [self.acknowledged(name, later) for later in versions[1:]] + [NEVER]
        return [each for each, end in zip(versions, gone, strict=True) if each.sent <= until and end > since]

    def of(self, query: Asked) -> list[Name]:
        """The documents that are where the query asks."""
        event = query.event
        place = event.get("destination", "default"), event.get("collection"), event.get("namespace", "default")
        return self._at.get(place, [])

    def expired(self, event: Mapping[str, Any], at: float) -> bool:
        """True if this version of a document has expired by then."""
        # The two clocks may drift.
        return bool(event.get("expires_at", NEVER) + 0.05 <= at + self._wall)

    def still(self, query: Asked, since: float) -> bool:
        """True if nothing moved or expired from then to the query's end in the part of the index that it asks."""
        return not any(
            (version.sent <= query.ended and self.acknowledged(name, version) > since)
            or since - 0.1 + self._wall < version.event.get("expires_at", NEVER) <= query.ended + self._wall
            for name, version in self._moves.get(self._part(query), [])
        )

    def moved(self, query: Asked) -> bool:
        """True if something was written to the part of the index that it asks after it had ended."""
        return any(version.sent > query.ended for _, version in self._moves.get(self._part(query), []))

    def _part(self, query: Asked) -> tuple[str, str]:
        collection = COLLECTIONS[query.event.get("destination", "default"), query.event.get("collection")]
        return collection, query.event.get("namespace", "default")

    def story(self, hit: Mapping[str, Any]) -> list[tuple[Written, float]]:
        """The versions of the document that a record is of, each with the time when a watermark counted it."""
        name = self.by_revision.get(hit["payload"]["rev"])
        return [(each, self.acknowledged(name, each)) for each in self.versions[name]] if name is not None else []

    def complaint(self, query: Asked, hit: Mapping[str, Any], policy: Policy, firewall: Policy) -> str | None:
        """Why this record must not be in the query's answer."""
        name = self.by_revision.get(hit["payload"]["rev"])
        if name is None or name not in self.of(query) or name[3] != hit["id"]:
            return "it is of another place"
        there = self.true(name, query.sent, query.ended)
        shown = [each.event for each in there if each.event["rev"] == hit["payload"]["rev"]]
        if not shown or shown[0]["op"] == "delete":
            return "it was replaced or deleted before the query was sent"
        if self.expired(shown[0], query.sent):
            return "it had expired before the query was sent"
        like = query.event.get("like", {})
        if hit["id"] in (*like.get("ids", ()), *like.get("unlike", ())):
            return "it is an example"
        told = event.get("fields") if (event := query.event.get("return")) else None
        fields = {"classification", "labels", "subject"}.intersection(told if told is not None else _ALL)
        if any(hit["payload"].get(field) != shown[0].get(field) for field in fields):
            return "it isn't what was written"
        if not visible(policy, firewall, shown[0]):
            return "its tier or a label forbids it"
        if any(field in hit["payload"] for field in policy.get("hidden_fields", [])):
            return "it has a field that is hidden"
        for passage in hit.get("passages", []):
            if not shown[0]["text"].startswith(passage["text"], passage["start"]):
                return "a passage is of another text"
        for near in [each for side in hit.get("neighbours", {}).values() for each in side]:
            around = [each.event for each in self.true((*name[:3], near["id"]), query.sent, query.ended)]
            if not any(
                each["op"] != "delete"
                and near["text"] in (None, each["text"])
                and visible(policy, firewall, each)
                and not self.expired(each, query.sent)
                for each in around
            ):
                return "a neighbour is hidden or gone"
        # The legs may have seen one version, and the payload be the next one's.
        return None if any(wanted(query.event, each.event) for each in there) else "the query's filters leave it out"

    def listing(self, query: Asked, policy: Policy, firewall: Policy) -> list[float]:
        """The times, newest first, undated last, of all that a lookup must find as long as nothing moves."""
        return sorted((each.get("created_at", 0) for each in self.matching(query, policy, firewall)), reverse=True)

    def matching(self, query: Asked, policy: Policy, firewall: Policy) -> list[dict[str, Any]]:
        """All that its source may see and its filters pass, as long as nothing moves."""
        last = [self.true(name, query.sent, query.ended)[-1].event for name in self.of(query)]
        there = [each for each in last if each["op"] == "upsert" and visible(policy, firewall, each)]
        there = [each for each in there if not self.expired(each, query.sent)]
        return [each for each in there if wanted(query.event, each)]
