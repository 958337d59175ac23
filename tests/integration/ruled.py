"""The rules of the crowd's namespaces, which change while queries pass, and a naive judge of what they may do."""

import hashlib
import json
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import xor
from typing import Any, Final

from tests.integration.conversation import Asked
from tests.integration.permitted import Policy

Key = tuple[str, str]
"""Namespace and id of a rule."""

Rules = Mapping[Key, Mapping[str, Any]]


def _pins(ids: Iterable[int], first: int) -> dict[str, Any]:
    return {"pin": [{"id": f"d{id_}", "position": first + 2 * at} for at, id_ in enumerate(ids)]}


def _filters(field_: str, op: str, value: Any) -> list[dict[str, Any]]:
    return [{"field": field_, "op": op, "value": value}]


RULES: Final[Rules] = {
    ("*", "canary-pins"): {"when": {"contains": "alpha"}, "then": _pins(range(0, 12, 2), 1)},
    ("vault", "canary-pins"): {"when": {"contains": "gamma"}, "then": _pins(range(3), 1)},
    ("north", "canary-north"): {"when": {"contains": "beta"}, "then": _pins(range(1, 24, 2), 2)},
    ("north", "canary-source"): {
        "when": {"sources": ["source-1", "source-4", "somebody"]},
        "then": {"bury": {"ids": ["d5", "d6", "d7"]}},
    },
    ("*", "canary-labels"): {"then": {"boost": {"filters": _filters("labels", "any_of", ["red", "amber"])}}},
    ("*", "canary-all"): {"then": {"synonyms": {"from": ["alpha"], "to": ["canaryall", "r1", "r2"]}}},
    ("default", "canary-default"): {"then": {"synonyms": {"from": ["gamma"], "to": ["canarydefault"], "weight": 1}}},
    ("default", "canary-type"): {"then": {"boost": {"filters": _filters("type", "eq", "reflection"), "weight": 2}}},
    ("*", "canary-hidden"): {
        "when": {"contains": "delta"},
        "then": {"rewrite": {"filters": _filters("type", "exists", False)}},
    },
    ("south", "canary-south"): {"then": {"bury": {"ids": ["d1"], "filters": _filters("type", "eq", "reflection")}}},
    ("south|east", "canary-red"): {
        "when": {"contains": "gamma"},
        "then": {"rewrite": {"filters": _filters("labels", "any_of", ["red"])}},
    },
    ("*", "canary-cheap"): {"when": {"contains": "zeta"}, "then": {"rewrite": {"order_by": {"field": "price"}}}},
}
"""Rules of tenants and of the operator. They name documents that many sources may not see, for each id stands for one
document of each namespace, and read what is hidden. Each id, and each word that no text has, is a canary.
"""

CANARY: Final = re.compile(r"canary[\w-]*")
BROKEN: Final[Mapping[str, Any]] = {"then": {}}
AWAY: Final = 3
"""Rules that are not there between two changes."""

UNASKED: Final = {"signals", "decay"}
"""Recipes that rank where there is nothing to search by."""


@dataclass(frozen=True)
class Working:
    """The rules that work for a query, by their ids, and whether the words of some stay, with a warning."""

    rules: Mapping[str, Mapping[str, Any]]
    refused: bool = False

    def then(self, effect: str) -> list[Any]:
        """One effect of all of them."""
        return [then[effect] for _, then in sorted(self.rules.items()) if effect in then]

    @property
    def canaries(self) -> set[str]:
        """All canaries that they name."""
        return {each for rule in self.rules.items() for each in CANARY.findall(json.dumps(rule))}

    @property
    def pins(self) -> list[tuple[int, str]]:
        """Positions and ids, in their order."""
        return sorted((pin["position"], pin["id"]) for pins in self.then("pin") for pin in pins)


@dataclass
class Rulebook:
    """Each state of the rules, with the time when its record was sent. The first is there before any query."""

    send: Callable[[Sequence[tuple[Key, bytes | None]]], None]
    states: list[Rules] = field(default_factory=list)
    sent: list[float] = field(default_factory=list)
    _versions: dict[tuple[int, str], str] = field(default_factory=dict)

    def begin(self) -> None:
        """Put all rules, before any flow starts."""
        self.send([(key, json.dumps(rule).encode()) for key, rule in RULES.items()])
        self.states, self.sent = [RULES], [time.monotonic()]

    def change(self, draw: random.Random) -> None:
        """Put those back that are away, and take others away; a broken one in the place of another changes nothing."""
        records: list[tuple[Key, bytes | None]] = [(draw.choice(list(RULES)), json.dumps(BROKEN).encode())]
        away = RULES.keys() - self.states[-1].keys()
        for key in (*sorted(away), *draw.sample(sorted(RULES.keys() - away), AWAY)):
            state = {name: rule for name, rule in RULES.items() if (name in self.states[-1]) is not (name == key)}
            self.states.append(state)
            # Noted before the broker can have it.
            self.sent.append(time.monotonic())
            records.append((key, json.dumps(state[key]).encode() if key in state else None))
        self.send(records)

    def find_states(self, queries: Iterable[Asked]) -> dict[str, list[int]]:
        """By query_id the states by which an answer may have been made: those of the version that it names, from the
        latest on that an answer had before the query was sent.
        """
        found: dict[str, list[int]] = {}
        answered = [each for each in queries if each.answer]
        ended = iter(sorted(answered, key=lambda each: each.ended))
        last, reached = next(ended, None), 0
        for query in sorted(answered, key=lambda each: each.sent):
            while last is not None and last.ended < query.sent:
                reached, last = max(reached, *found[last.id][:1], 0), next(ended, None)
            named, namespace = query.answer["provenance"].get("rules"), query.event.get("namespace", "default")
            found[query.id] = [
                at
                for at in range(reached, len(self.states))
                if self.sent[at] <= query.ended and named in (None, self.version(at, namespace))
            ]
        return found

    def version(self, at: int, namespace: str) -> str:
        """The version of the rules of a namespace in a state."""
        if (at, namespace) not in self._versions:
            self._versions[at, namespace] = version(self.states[at], namespace)
        return self._versions[at, namespace]


def version(state: Rules, namespace: str) -> str:
    """The name of the rules of a namespace: the XOR of their hashes, and behind it that of the rules for all."""
    parts = []
    for space in (namespace, "*"):
        values = (f"{id_}\0{json.dumps(rule)}".encode() for (of, id_), rule in state.items() if of == space)
        hashes = (int.from_bytes(hashlib.sha256(each).digest()[:8]) for each in values)
        parts.append(f"{reduce(xor, hashes, 0):016x}")
    return "".join(parts)


def is_searched(query: Asked) -> bool:
    """True if rules are for the query: it is no lookup, and not for reflections alone."""
    event = query.event
    if event.get("reflections_only"):
        return False
    ranked = event.get("recipe") in UNASKED and event.keys() & {"filters", "actor_type", "facets"}
    return bool(event.keys() & {"text", "vector", "like"} or ranked)


def working(state: Rules, query: Asked, policy: Policy) -> Working:
    """The rules that work for a query in this state, as docs/how-to/rules.md has it."""
    if not is_searched(query):
        return Working({})
    event, text = query.event, query.event.get("text") or ""
    words, plain = re.findall("[a-z]+", text), re.fullmatch("[a-z ]+", text)
    spaces = "*", event.get("namespace", "default")
    own = {id_: rule for space in spaces for (of, id_), rule in state.items() if of == space}
    holding = {
        id_: rule["then"]
        for id_, rule in own.items()
        if rule.get("when", {}).get("contains") in (None, *words)
        and query.source in rule.get("when", {}).get("sources", [query.source])
    }
    rewriting = {id_: then["rewrite"] for id_, then in holding.items() if "rewrite" in then and plain}
    hidden = policy.get("hidden_fields", [])
    refused = any(each["field"] in hidden for then in rewriting.values() for each in then.get("filters", []))
    rewriting = {} if refused else rewriting
    left = [word for word in words if word not in {own[id_]["when"]["contains"] for id_ in rewriting}]
    found = {id_: then for id_, then in holding.items() if id_ in rewriting or "rewrite" not in then}
    if rewriting and not left and not event.keys() & {"vector", "like"} and event.get("recipe") not in UNASKED:
        # It is a lookup.
        found = {id_: found[id_] for id_ in rewriting}
    expanding = left if plain else []
    return Working(
        {
            id_: then
            for id_, then in found.items()
            if "synonyms" not in then or any(word in expanding for word in then["synonyms"]["from"])
        },
        refused,
    )


def rewritten(query: Asked, rules: Working) -> Asked:
    """The query with the filters that its rules put in place of words."""
    more = [each for rewrite in rules.then("rewrite") for each in rewrite.get("filters", [])]
    return replace(query, event={**query.event, "filters": [*query.event.get("filters", []), *more]}) if more else query
