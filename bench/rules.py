"""The cost of rules: the start, and CPU a query, with many rules in the topic and with none; and rules that change.

Each rule needs words that begin as a query's do, and go on otherwise: no query has an effect of it, all look for it.
While rules change, each answer must be by one of two sets: it names the set in `provenance`, and says in `rules` if the
rule worked that only one of them has.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from confluent_kafka import Consumer, Producer

from bench.comparison import ratios
from bench.events import WORDS
from bench.figures import BenchError, Phase, spread
from bench.rig import Rig
from bench.rounds import Plan, Progress, compare
from bench.subject import Launch, Subject, Surroundings, launch
from operators.query.rules import Circumstances, RuleTable
from operators.query.ruling import decide
from schemas.rule import rule_key
from schemas.settings import Defaults

RATIO: Final = 1.05
"""CPU a query with the rules, over that with none, at most."""
START: Final = 2.0
"""Seconds that the rules may add to a start."""

_NAMESPACE: Final = Defaults().namespace
_CHANGING: Final = rule_key(_NAMESPACE, "changing")
_WORKS: Final = b'{"then":{"boost":{"field":"price"}}}'
_PASSIVE: Final = b'{"then":{"synonyms":{"words":["never asked","nor this"]}}}'
CHANGED_AT: Final = 200.0
"""Queries a second while a rule changes."""

_EVERY: Final = 0.7
"""Seconds from change to change."""
_PATIENCE: Final = 30.0
_PAUSE: Final = 10.0


def write_rules(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values of rules: pins, boosts and synonyms in turn, for two words of the load and one of their own."""
    words = WORDS.split()
    for number in range(count):
        text = f"{words[number % len(words)]} {words[number // len(words) % len(words)]} only{number}"
        pin = {"pin": [{"id": f"d{number}", "position": 1}]}
        when, then = {"contains": text}, (pin, {"boost": {"field": "price"}})
        synonyms = {"then": {"synonyms": {"from": [text], "to": [f"other{number}"]}}}
        rule = synonyms if number % 3 == 2 else {"when": when, "then": then[number % 3]}
        yield rule_key(_NAMESPACE, f"r{number}"), orjson.dumps(rule)


class _Ruled:
    """A subject with so many rules in its topic, and the seconds of its starts."""

    def __init__(self, client: str, count: int) -> None:
        self._client, self.count = client, count
        self.subject = Subject(f"{count}-rules", self._launch)
        self.around: Surroundings | None = None
        self._began = 0.0
        self.starts: list[float] = []

    @property
    def topic(self) -> str:
        """The topic of rules of the last start."""
        return f"rules-{self.around.kafka.group_id}" if self.around is not None else ""

    def _launch(self, around: Surroundings) -> Launch:
        self.around = around
        around.create_topic(self.topic, **{"cleanup.policy": "compact"})
        self.put(dict(write_rules(self.count)))
        kafka = around.kafka.model_dump(mode="json", exclude_unset=True)
        kafka["topics"]["rules"] = self.topic
        self._began = time.monotonic()
        return launch(self._client, around, {"kafka": {**kafka, "client": self._client}})

    def note_start(self) -> None:
        """Note the seconds from the launch until the subject and its load are ready."""
        self.starts.append(time.monotonic() - self._began)

    def put(self, rules: Mapping[bytes, bytes]) -> None:
        """Put rules on the topic. Raises BenchError."""
        assert self.around is not None
        producer = Producer({"bootstrap.servers": self.around.kafka.bootstrap_servers})
        for key, value in rules.items():
            producer.produce(self.topic, value, key)
        if producer.flush(_PATIENCE):
            raise BenchError("the broker does not take the rules in time")

    def results(self) -> Iterator[Mapping[str, Any]]:
        """All results of the last start."""
        assert self.around is not None
        kafka = self.around.kafka
        own = {"group.id": f"{kafka.group_id}-bench", "auto.offset.reset": "earliest"}
        with contextlib.closing(Consumer({"bootstrap.servers": kafka.bootstrap_servers, **own})) as consumer:
            consumer.subscribe([kafka.topics.results])
            heard = time.monotonic()
            # The group is joined within seconds; then there is no pause before the end.
            while time.monotonic() - heard < _PAUSE:
                for record in consumer.consume(500, 0.5):
                    heard = time.monotonic()
                    if record.error() is None:
                        yield orjson.loads(record.value() or b"{}")


def measure(rig: Rig, client: str, plan: Plan, count: int, progress: Progress) -> dict[str, Any]:
    """The figures of `count` rules beside none. Raises BenchError."""
    none, many = _Ruled(client, 0), _Ruled(client, count)
    for number in range(plan.rounds):
        for each in (none, many):
            progress(f"{each.subject.name}: start {number + 1} of {plan.rounds}")
            with rig.running(each.subject):
                each.note_start()
    outcomes = compare(rig, [none.subject, many.subject], plan, progress)
    reports = {name: outcome.report() for name, outcome in outcomes.items()}
    return {
        "rules": count,
        "start_s": {each.subject.name: spread(each.starts) for each in (none, many)},
        "subjects": reports,
        "over_none": ratios(reports)[many.subject.name],
        "changing": _change(rig, many, plan, progress),
        "promised": {"cpu_over_none": RATIO, "start_s_over_none": START},
    }


def _change(rig: Rig, many: _Ruled, plan: Plan, progress: Progress) -> dict[str, Any]:
    """The answers under load while a rule changes, by the set that they name, and those that do not hold to it."""
    progress("rules change while queries pass")
    names = {}
    for worked, value in ((True, _WORKS), (False, _PASSIVE)):
        table = RuleTable()
        for key, rule in (*write_rules(many.count), (_CHANGING, value)):
            table.put(key, rule)
        names[decide(table.of(_NAMESPACE), None, Circumstances(None, 0)).version] = worked
    ended = threading.Event()

    def change() -> None:
        values = [_PASSIVE, _WORKS]
        while not ended.wait(_EVERY):
            many.put({_CHANGING: values[0]})
            values.reverse()

    with rig.running(many.subject) as running:
        # Without this rule there would be a third set.
        many.put({_CHANGING: _WORKS})
        time.sleep(2 * _EVERY + 1)
        changing = threading.Thread(target=change)
        changing.start()
        measured = running.measure(Phase(round(max(plan.seconds, 5 * _EVERY) * CHANGED_AT), CHANGED_AT))
        ended.set()
        changing.join()
    tally: Counter[str] = Counter()
    for result in many.results():
        works = names.get(result["provenance"].get("rules"))
        holds = works is not None and works == bool(result.get("rules"))
        tally[("with" if works else "without") if holds else "neither"] += 1
    return {"sent": measured.sent, "answered": measured.answered, "twice": measured.twice, "by_set": dict(tally)}


def kept(figures: Mapping[str, Any]) -> bool:
    """True if the rules cost no more than promised, and each answer was by one of the sets."""
    one, other = (each["median"] for each in figures["start_s"].values())
    cheap = all(load["cpu"]["median"] <= RATIO for load in figures["over_none"].values())
    changing = figures["changing"]
    whole = sum(changing["by_set"].values()) == changing["sent"] == changing["answered"]
    return other - one <= START and cheap and whole and "neither" not in changing["by_set"]
