"""Random policies, documents and queries: many alike, many that differ in one thing, from one seed."""

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.integration.conversation import Asked
from tests.integration.permitted import COLLECTIONS, LATE, TIERS

DIMENSION = 8
NAMESPACES = ("default", "north", "south", "south|east", "vault")
LABELS = ("red", "blue", "green", "amber")
SUBJECTS = ("ada", "bob", "eve")
ACTORS = ("user", "agent")
CLASSES = (None, None, *TIERS, *TIERS, "secret", "Public", "")
VOCABULARY = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
TEXTS = (
    None,
    None,
    "alpha beta",
    "gamma",
    "delta zeta alpha",
    '"alpha beta"',
    "alpha AND NOT gamma",
    "gam*",
    '"alpha be"*',
    "title:beta",
)
RECIPES = (None, None, "hybrid", "rrf", "vector", "keyword", "signals", "decay", "composite")
RETURNED = (
    {"passages": 2},
    {"text": 9, "passages": 1},
    {"text": "none"},
    {"fields": ["rev", "namespace"]},
    {"neighbours": 2},
    {"neighbours": 1, "fields": ["rev"]},
)
CHANGED = (
    *("source", "source", "namespace", "namespace", "place", "subject", "actor_type", "filters", "limit", "profile"),
    *("recipe", "explain", "debug", "record", "rerank", "reflections", "now", "return", "group", "group", "group"),
    *("like", "like"),
)
STRANGERS = ("nobody", "somebody", None)

GUARDS: tuple[dict[str, Any], ...] = (
    {"field": "price", "op": "range", "value": {"gte": 2, "lt": 9}},
    {"field": "subject", "op": "none_of", "value": ["eve"]},
    {"any_of": [{"field": "parent", "op": "eq", "value": "p1"}, {"field": "type", "op": "exists", "value": False}]},
    {"field": "parts", "op": "nested", "value": [{"field": "price", "op": "range", "value": {"gte": 3, "lt": 10}}]},
)
"""Filters of policies."""

FIREWALL: dict[str, Any] = {
    "enabled": True,
    "blocked_labels": ["amber"],
    "required_labels": [],
    "namespaces": {"vault": "internal"},
}


def policies(draw: random.Random, count: int) -> dict[str, dict[str, Any]]:
    """Policies by source; "" is the default one. Most let most through: a refusal tells little."""
    drawn = {name: _policy(draw) for name in ("", *(f"source-{number}" for number in range(count)))}
    for number, guard in enumerate(GUARDS):
        drawn[f"source-{number * count // len(GUARDS)}"]["filters"] = [guard]
    return drawn


def _policy(draw: random.Random) -> dict[str, Any]:
    policy: dict[str, Any] = {}

    def sometimes(chance: float, name: str, value: Any) -> None:
        if draw.random() < chance:
            policy[name] = value

    sometimes(0.05, "read", False)
    sometimes(0.15, "destinations", ["default"])
    sometimes(0.1, "collections", ["notes"])
    sometimes(0.3, "namespaces", draw.sample(NAMESPACES, 4))
    sometimes(0.1, "operations", ["read"])
    sometimes(0.2, "retrieval_modes", draw.sample(["fast", "balanced", "deep"], 2))
    sometimes(0.3, "allowed_profiles", draw.sample(["fast", "balanced", "deep"], 2))
    sometimes(0.9, "clearance", draw.choice([*TIERS, "internal", "confidential"]))
    sometimes(0.05, "clearance", "cosmic")
    sometimes(0.4, "blocked_labels", draw.sample(LABELS, 1))
    sometimes(0.2, "required_labels", draw.sample(LABELS[:3], 1))
    denied = [("destinations", "archive"), ("namespaces", "south"), ("profiles", "deep"), ("retrieval_modes", "fast")]
    # Without `operations`: reading is the only one, and a source that may not read tries nothing else.
    denied += [("collections", "notes")]
    if policy.get("clearance") == "internal":
        policy["hidden_fields"] = ["type"]
    sometimes(0.3, "deny", {name: [value] for name, value in draw.sample(denied, 1)})
    return policy


def near(draw: random.Random, vector: Sequence[float], spread: float) -> list[float]:
    """A vector beside this one."""
    return [round(each + draw.gauss(0, spread), 4) for each in vector]


class Random:
    """Documents and queries of one seed; `sources` are those with a policy of their own."""

    def __init__(self, draw: random.Random, sources: Sequence[str]) -> None:
        self._draw = draw
        self._sources = [*sources, *STRANGERS]
        self._centres = [[draw.gauss(0, 1) for _ in range(DIMENSION)] for _ in range(5)]
        self._revision = 0
        self._number = 0

    def document(self, place: tuple[str, str | None], namespace: str, number: int) -> dict[str, Any]:
        """The next version of a document."""
        draw = self._draw
        self._revision += 1
        written = {
            "id": f"d{number}",
            "op": "upsert",
            "rev": self._revision,
            "namespace": namespace,
            "destination": place[0],
            "collection": place[1],
            "title": draw.choice(VOCABULARY),
            "text": f"{' '.join(draw.choices(VOCABULARY, k=4))} r{self._revision}",
            "vector": near(draw, draw.choice(self._centres), 0.3),
            "subject": draw.choice((None, *SUBJECTS)),
            "actor_type": draw.choice((None, *ACTORS)),
            "classification": draw.choice(CLASSES),
            "labels": draw.choice((None, [], draw.sample(LABELS, 1), draw.sample(LABELS[:3], 2))),
            "price": draw.randrange(10),
            "parent": draw.choice((None, "p0", "p1", "p2")),
            "parts": [{"price": draw.randrange(10), "labels": draw.sample(LABELS, 1)} for _ in range(2)],
            "type": draw.choice((None, None, None, "reflection")),
            "created_at": draw.choice((None, 1_700_000_000 + 60 * self._revision)),
            "turn": number,
            "expires_at": draw.choice((*[None] * 7, LATE, 1, round(time.time()) + draw.randrange(1, 40))),
        }
        return {name: value for name, value in written.items() if value is not None}

    def change(self, place: tuple[str, str | None], namespace: str, number: int) -> dict[str, Any]:
        """The next version of a document, its deletion, or a patch of some of its fields."""
        written = self.document(place, namespace, number)
        kind = self._draw.random()
        named = ("id", "rev", "namespace", "destination", "collection")
        own = {name: written[name] for name in named if name in written}
        if kind < 0.25:
            return {"op": "delete", **own}
        if kind < 0.6:
            changed = self._draw.sample(("classification", "labels", "subject", "price", "parent", "expires_at"), 3)
            return {"op": "patch", **own, **{name: written.get(name) for name in changed}}
        return written

    def fresh(self) -> Asked:
        """A query of any shape."""
        draw = self._draw
        event = self._place()
        shape = draw.randrange(16)
        if shape >= 4:
            self._scoped(event, 0.2)
            if shape != 4:
                event["vector"] = near(draw, draw.choice(self._centres), 0)
            text = draw.choice(TEXTS[2:] if shape == 4 else TEXTS)
            if text is not None:
                event["text"] = text
            event |= {"recipe": recipe} if (recipe := draw.choice(RECIPES)) else {}
        elif shape < 2:
            event["subject"] = draw.choice(SUBJECTS)
        else:
            self._scoped(event, 0.5)
            event.setdefault("filters", [self._filter()])
        if draw.random() < 0.2:
            # No two versions of documents have one revision: each value that is counted tells which one was.
            event["facets"] = [{"field": "rev", "limit": 200}]
        return self._asked(event, draw.choice(self._sources))

    def again(self, query: Asked) -> Asked:
        """The same query, as another event."""
        return self._asked(dict(query.event), query.source)

    def nearly(self, query: Asked) -> Asked:
        """The same query but for its vector, which is near or only longer, or its text."""
        event = dict(query.event)
        if "vector" in event:
            spread = self._draw.choice((0.0, 0.02, 0.2))
            event["vector"] = near(self._draw, [2 * each for each in event["vector"]], spread)
        elif "text" in event:
            event["text"] = self._draw.choice(TEXTS[2:])
        return self._asked(event, query.source)

    def otherwise(self, query: Asked) -> Asked:
        """The same query but for one thing of its scope."""
        event, draw = dict(query.event), self._draw
        name = draw.choice(CHANGED)
        if name == "source":
            return self._asked(event, draw.choice(self._sources))
        changes: dict[str, Any] = {
            "namespace": {"namespace": draw.choice(NAMESPACES)},
            "place": self._place(),
            "subject": {"subject": draw.choice(SUBJECTS)},
            "actor_type": {"actor_type": draw.choice(ACTORS)},
            "filters": {"filters": [self._filter()]},
            "limit": {"limit": draw.choice((1, 2, 4, 30))},
            "profile": {"profile": draw.choice(("fast", "balanced", "deep", "odd"))},
            "recipe": {"recipe": draw.choice(RECIPES[2:])},
            "reflections": draw.choice(({"include_reflections": False}, {"reflections_only": True})),
            "return": {"return": draw.choice(RETURNED)},
            "now": {"now": draw.choice((1_700_000_000, 1_700_009_000))},
            "group": self._grouping(event),
            "like": {"like": self._like()},
        }
        if name == "place":
            event = {
                key: value for key, value in event.items() if key not in ("namespace", "destination", "collection")
            }
        event |= changes.get(name, {name: name != "rerank"})
        if event.get("reflections_only"):
            event.pop("include_reflections", None)
            # Reflections are like no documents.
            event.pop("reflections_only" if name == "like" else "like", None)
        return self._asked(event, query.source)

    def _like(self) -> dict[str, Any]:
        """Documents that may be foreign, hidden, deleted or expired, or never were there."""
        draw = self._draw
        ids, unlike = (draw.sample([f"d{number}" for number in range(30)], draw.choice((1, 3))) for _ in range(2))
        strategy = draw.choice(("average_vector", "best_score"))
        return {"ids": ids, "strategy": strategy, **({"unlike": unlike} if draw.random() < 0.3 else {})}

    def _grouping(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """A grouping, for a search: lookups have none."""
        grouping = {"group_by": self._draw.choice(("parent", "price")), "group_size": self._draw.choice((1, 3))}
        return grouping if event.keys() & {"text", "vector", "like", "reflections_only"} else {}

    def page(self, query: Asked) -> Asked:
        """The page after a query's answer, most often as it should be asked for."""
        draw = self._draw
        cursor = query.answer["next_cursor"]
        kind = draw.random()
        asked = self.again(query)
        if kind < 0.3:
            asked = self.otherwise(query)
        elif kind < 0.4:
            place = draw.randrange(len(cursor))
            changed = cursor[:place] + draw.choice("ABCxyz012-_") + cursor[place + 1 :]
            asked.forged, cursor = changed != cursor, changed
        asked.event["cursor"], asked.given = cursor, query
        asked.event["cursor_policy"] = draw.choice(("strict", "continue"))
        return asked

    def _asked(self, event: dict[str, Any], source: str | None) -> Asked:
        self._number += 1
        event["query_id"] = f"q{self._number}"
        event["metadata"] = {"asked as": f"m{self._number}"}
        # Who the event says that it is from doesn't matter: the header does.
        event["source"] = self._draw.choice(self._sources[:-1])
        event.pop("cursor", None)
        return Asked(event, source)

    def _place(self) -> dict[str, Any]:
        draw = self._draw
        destination, part = draw.choice((("default", None), *COLLECTIONS))
        event: dict[str, Any] = {"namespace": draw.choice(NAMESPACES), "destination": destination}
        if part is not None:
            event["collection"] = part
        for name in ("namespace", "destination"):
            if event[name] == "default" and draw.random() < 0.5:
                del event[name]
        event["limit"] = draw.choice((2, 3, 5, 30))
        if draw.random() < 0.4:
            event["profile"] = draw.choice(("fast", "balanced", "deep", "odd"))
        return event

    def _scoped(self, event: dict[str, Any], chance: float) -> None:
        draw = self._draw
        for name, values in (("subject", SUBJECTS), ("actor_type", ACTORS)):
            if draw.random() < chance:
                event[name] = draw.choice(values)
        if draw.random() < chance:
            event["filters"] = [self._filter() for _ in range(draw.choice((1, 1, 2)))]

    def _filter(self, depth: int = 0) -> dict[str, Any]:
        low = self._draw.randrange(8)
        wanted: tuple[tuple[str, str, Any], ...] = (
            ("price", "eq", low),
            ("price", "range", {"gte": low, "lt": low + 4}),
            ("price", "any_of", [low, low + 1]),
            ("subject", "none_of", [self._draw.choice(SUBJECTS)]),
            ("labels", "any_of", self._draw.sample(LABELS, 2)),
            ("classification", "exists", bool(low % 2)),
            ("classification", "any_of", list(TIERS[2:])),
            ("title", "prefix", self._draw.choice("abgdez")),
        )
        kind = self._draw.random()
        # Filters may be no deeper than eight.
        if kind < 0.2 and depth < 4:
            several = [self._filter(depth + 1), self._filter(depth + 1)]
            return {self._draw.choice(("any_of", "all_of", "none_of")): several}
        if kind < 0.3:
            several = [{"field": "price", "op": "range", "value": {"gte": low, "lt": low + 4}}, self._own_label()]
            return {"field": "parts", "op": "nested", "value": several[: self._draw.randrange(1, 3)]}
        field, op, value = self._draw.choice(wanted)
        return {"field": field, "op": op, "value": value}

    def _own_label(self) -> dict[str, Any]:
        return {"none_of": [{"field": "labels", "op": "any_of", "value": self._draw.sample(LABELS, 1)}]}
