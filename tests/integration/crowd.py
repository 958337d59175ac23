"""A crowd of sources that ask one running flow at random, while documents change, are relabelled and deleted."""

import contextlib
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.kafka.broker import Broker
from operators.query.result import members
from schemas.rule import rule_key
from tests import qdrant_server
from tests.integration import permitted
from tests.integration.at_random import DIMENSION, FIREWALL, NAMESPACES, Random, policies
from tests.integration.attacks import HARMLESS, REFUSED, Attacks, fits
from tests.integration.conversation import HEADER, Asked, Conversation, Message
from tests.integration.deployment import PATIENCE, Deployment
from tests.integration.permitted import COLLECTIONS, Policy, World
from tests.integration.ruled import Key, Rulebook, Working, working
from tests.kafka.registry import Registry
from tests.tiers import sized

SEED = 20
SOURCES = 12
DOCUMENTS = 25
ROUNDS = sized(8, nightly=22)
QUERIES = 480
CHANGES = 8
ATTACKS = 8
"""Queries of a round that are written as an adversary does, of each kind."""

FORGETTING = 4
"""Rounds, in the last of which a namespace is forgotten."""

CACHES = ("exact_cache", "semantic_cache")

EFFECTS = ("pin", "bury", "boost", "rewrite", "synonyms")
KINDS = {"exact_cache", "semantic_cache", "followed", "fast_path", "structured", "hybrid_merge", "page", "groups"}
KINDS |= {"like", "passages", "hidden", "patched", "neighbours", "cursor_invalid", "cursor_expired"}
KINDS |= {*EFFECTS, "not rewritten", "ruled anew", "cached under rules"}
KINDS |= {"destination_not_allowed", "retrieval_mode_not_allowed", "policy_denied", "retrieval_firewall_denied"}
"""All that must have been seen, as `Run.kinds` names it.

The story depends on the machine's pace: rounds go on, up to twice their number, until all of it has been seen.
"""


@dataclass
class Run:
    """All that was asked and written, and the configuration that it is judged by.

    `attacks` are queries that must be refused; attacks that change nothing are among those that were asked.
    """

    asked: list[Asked]
    attacks: list[Asked]
    world: World
    sources: Mapping[str, Policy]
    firewall: Policy
    rulebook: Rulebook
    _states: dict[str, list[int]] = field(default_factory=dict)

    def policy(self, query: Asked) -> Policy:
        """A source whose name no policy has gets the default one."""
        default: Policy = self.sources[""]
        return self.sources.get(query.source, default) if query.source is not None else default

    def denial(self, query: Asked) -> str | None:
        """The code by which it must be refused."""
        return permitted.denial(self.policy(query), self.firewall, query)

    def origin(self, query: Asked) -> Asked:
        """The query that its answer was computed for."""
        return self.world.conversation.by_place[query.computed_at]

    def followed(self, query: Asked) -> bool:
        """True if it was given the answer to another query, and not from a cache."""
        return bool(query.answer) and query.answer["retrieval_stage"] not in CACHES and self.origin(query) is not query

    def states(self, query: Asked) -> list[int]:
        """The states of the rules by which it may have been answered."""
        if query.id not in self._states:
            self._states = self.rulebook.find_states(self.asked)
        return self._states[query.id]

    def rules(self, query: Asked) -> Working:
        """The rules that must have worked for it."""
        states = self.states(query)
        return working(self.rulebook.states[states[0]], query, self.policy(query)) if states else Working({})

    def is_ruled_anew(self, query: Asked, before: Asked) -> bool:
        """True if the rules of its namespace may have changed since another query was answered."""
        book, namespace, first = self.rulebook, query.event.get("namespace", "default"), min(self.states(before))
        later = (at for at, sent in enumerate(book.sent) if at > first and sent <= query.ended)
        return any(book.version(at, namespace) != book.version(first, namespace) for at in later)

    def kinds(self) -> set[str]:
        """The kinds of answers, dead letters and refusals that there have been."""
        found: set[str] = set()
        for query in self.asked:
            found |= {query.dead or query.answer["retrieval_stage"], str(self.denial(query))}
            results = query.answer.get("results", [])
            hits = list(members(query.answer)) if query.answer else []
            there = {
                "followed": self.followed(query),
                "groups": any(hit.get("group", {}).get("results") for hit in results),
                "patched": any(hit["payload"].get("rev") in self.world.patches for hit in hits),
                "neighbours": any(any(hit.get("neighbours", {}).values()) for hit in hits),
                "passages": any(hit.get("passages") for hit in results),
                "hidden": self.policy(query).get("hidden_fields") and results,
                "like": "like" in query.event and results,
                "page": query.given is not None and query.dead is None and self.denial(query) is None,
            }
            if "rules" in query.answer.get("provenance", ()):
                rules = self.rules(query)
                there |= {effect: bool(rules.then(effect)) for effect in EFFECTS}
                there["not rewritten"] = rules.refused
                there["ruled anew"] = min(self.states(query), default=0) > len(self.rulebook.states) // 2
                there["cached under rules"] = query.answer["retrieval_stage"] in CACHES
            found |= {kind for kind, seen in there.items() if seen}
        return found


@contextlib.contextmanager
def asking(broker: Broker, directory: Path, *, firewall: bool, inside: bool) -> Iterator[Run]:
    """Rounds of queries, each with some that repeat or continue those before, and changes in the middle of each.

    The engine is in a server, or `inside` the flow's process.
    """
    draw = random.Random(SEED)
    sources = policies(draw, SOURCES)
    guard = {**FIREWALL, "enabled": firewall}
    with contextlib.ExitStack() as stack:
        registry = stack.enter_context(Registry())
        path = directory / "engine"
        qdrant = {"path": str(path)} if inside else {"url": stack.enter_context(qdrant_server.running(path))}
        settings = {
            "qdrant": {
                **qdrant,
                # Rounds of hundreds of queries ask all legs at once, on a machine that others use, too.
                "timeout": PATIENCE,
                "dimension": DIMENSION,
                "destinations": {place: name for (place, part), name in COLLECTIONS.items() if part is None},
                "collections": {"default": {"notes": COLLECTIONS["default", "notes"]}},
                "indexes": {"price": "integer", "parent": "keyword", "rev": "integer"},
                "context": {"order_by": "turn"},
            },
            "policies": {
                "identity": {"by": "header", "header": HEADER},
                "default": sources[""],
                "sources": {name: policy for name, policy in sources.items() if name},
            },
            "firewall": guard,
            "cache": {"watermark_timeout": 1.0, "clock_bucket": 3600},
            "limits": {"timeout": PATIENCE, "max_timeout": PATIENCE},
        }
        with (
            Deployment.on(broker, directory, lambda word: f"{word}-{directory.name}", settings) as system,
            Conversation.with_(system) as conversation,
        ):
            system.environment["RANKSTREAM_CURSOR__SIGNING_SECRET"] = "sixteen and more characters"
            system.settings["kafka"]["topics"]["rules"] = f"rules-{directory.name}"
            # Of one partition: its records have one order.
            broker.create_topic(system.names["rules"], 1, {"cleanup.policy": "compact"})

            def put(records: Sequence[tuple[Key, bytes | None]]) -> None:
                keys = [rule_key(*key).decode() for key, _ in records]
                system.produce("rules", [value for _, value in records], keys=keys)

            rulebook = Rulebook(put)
            rulebook.begin()
            system.settings["kafka"]["schema_registry"] = {"url": registry.base_url}
            commands = ("run --with-indexing",) if inside else ("index", "run")
            for flow in [system.start(command, replica=command[:3], wait=False) for command in commands]:
                flow.wait_ready()
            world = World(conversation)
            named = [name for name in sources if name]
            run = Run([], [], world, sources, guard, rulebook)
            _converse(draw, run, named, Attacks(registry, named))
            yield run


def _converse(draw: random.Random, run: Run, sources: list[str], attacks: Attacks) -> None:
    """Ask: `run.asked` is what is answered or whose cursor is refused, `run.attacks` are those that are refused."""
    world = run.world
    conversation, source = world.conversation, Random(draw, sources)
    # The story is the same as without attacks: no later query is drawn from them, or with their numbers.
    chance, others = random.Random(SEED + 1), random.Random(SEED + 2)

    def write(query: Asked, plain: Message) -> Message:
        return attacks.write(query.attack, query, plain, chance) if query.attack is not None else plain

    everywhere = [(place, namespace) for place in COLLECTIONS for namespace in NAMESPACES]
    written = world.write([source.document(*where, number) for where in everywhere for number in range(DOCUMENTS)])
    conversation.wait(lambda: all(world.acknowledged(_name(each.event), each) < 1e300 for each in written))
    asked: list[Asked] = []
    for number in range(2 * ROUNDS):
        if number >= ROUNDS and run.kinds() >= KINDS:
            break
        queries = _round(draw, source, world, asked)
        for _ in range(ATTACKS):
            for attack in (*REFUSED, *HARMLESS):
                # To write a flood takes a client half a second.
                if attack != "a flood of headers" or chance.random() < 1 / ATTACKS:
                    known = chance.choice([each for each in queries if fits(attack, each)])
                    id_ = f"{number}-{len(queries)}"
                    event = {**known.event, "query_id": f"q-{id_}", "metadata": {"asked as": f"m-{id_}"}}
                    event.pop("cursor", None)
                    queries.insert(chance.randrange(len(queries)), Asked(event, known.source, attack=attack))
        where = draw.choice(everywhere)
        changes = [source.change(*where, draw.randrange(DOCUMENTS)) for _ in range(CHANGES)]
        # What was answered of the first third can answer the second from the caches, before something changes.
        third = len(queries) // 3
        conversation.ask(queries[:third], write)
        conversation.wait_answered()
        conversation.ask(queries[third : 2 * third], write)
        if number % FORGETTING == FORGETTING - 1:
            # Some of them come back, as later versions.
            world.forget(*where)
        world.write(changes)
        run.rulebook.change(others)
        conversation.ask(queries[2 * third :], write)
        conversation.wait_answered()
        asked += [query for query in queries if query.attack is None]
        run.asked += [query for query in queries if query.attack not in REFUSED]
        run.attacks += [query for query in queries if query.attack in REFUSED]


def _name(event: dict[str, Any]) -> permitted.Name:
    return event["destination"], event.get("collection"), event["namespace"], event["id"]


def _round(draw: random.Random, source: Random, world: World, asked: list[Asked]) -> list[Asked]:
    """Queries that repeat, vary or continue those of earlier rounds and of their own.

    Half of those that continue do so after a write.
    """
    lately = asked[-6 * QUERIES :]
    paged = [query for query in asked[-2 * QUERIES :] if query.answer.get("next_cursor")]
    moved = list(filter(world.moved, paged))
    queries: list[Asked] = []
    while len(queries) < QUERIES:
        known = draw.choice(lately) if lately and draw.random() < 0.7 else None
        known = known or (draw.choice(queries) if queries else source.fresh())
        kind = draw.random()
        if kind < 0.12 or not queries:
            queries.append(source.fresh())
        elif kind < 0.45:
            queries += [source.again(known) for _ in range(draw.choice((1, 1, 3)))]
        elif kind < 0.65:
            queries.append(source.nearly(known))
        elif kind < 0.85 or not paged:
            queries.append(source.otherwise(known))
        else:
            queries.append(source.page(draw.choice(moved if moved and draw.random() < 0.5 else paged)))
    return queries
