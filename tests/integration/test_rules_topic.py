"""The topic of rules, on a real broker: each answer is by the rules before or after a change, and says by which."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from bench.kafka.broker import Broker
from operators.query.rules import Circumstances, RuleTable
from operators.query.ruling import decide
from schemas import headers as names
from schemas.rule import rule_key
from tests import qdrant_server
from tests.integration.deployment import Deployment, assert_each_once, wait_until

pytestmark = pytest.mark.slow

DOCUMENTS: Final = [{"id": id_, "namespace": "n", "text": f"a lamp, {id_}"} for id_ in ("one", "two", "three", "four")]
QUERIES: Final = 50
"""Queries that pass before, and after, each step of a change."""

Rules = Mapping[str, Mapping[str, Any] | None]


def pinning(id_: str) -> dict[str, Any]:
    """A rule that puts a document first."""
    return {"when": {"contains": "lamp"}, "then": {"pin": [{"id": id_, "position": 1}]}}


def put(deployment: Deployment, rules: Rules) -> None:
    """Put rules of the namespace."""
    values = [json.dumps(rule).encode() if rule is not None else None for rule in rules.values()]
    deployment.produce("rules", values, keys=[rule_key("n", id_).decode() for id_ in rules])


def version(rules: Rules) -> str:
    """The name of a set of rules."""
    table = RuleTable()
    for id_, rule in rules.items():
        table.put(rule_key("n", id_), json.dumps(rule).encode())
    return decide(table.of("n"), None, Circumstances(None, 0)).version


def test_a_broken_rule_is_a_dead_letter(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """One, by whichever of two replicas has the first partition, and at least one after a replica has died; none for
    those that came while no replica ran.
    """
    no_rule, key = b'{"then": {"pin": []}}', rule_key("n", "pin").decode()
    with (
        qdrant_server.running(tmp_path / "engine") as qdrant,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": qdrant, "timeout": 20}}) as deployment,
    ):
        deployment.settings["kafka"]["topics"]["rules"] = topic_names("rules")
        broker.create_topic(topic_names("rules"), 4, {"cleanup.policy": "compact"})

        def offset_of(letter: Any) -> int:
            return int(dict(letter.headers)[names.OFFSET])

        def broken(number: int) -> None:
            deployment.produce("rules", [no_rule], keys=[key])
            wait_until(lambda: len(deployment.records("dead_letters")) >= number)

        put(deployment, {"pin": pinning("two")})
        deployment.produce("rules", [no_rule], keys=[key])
        assert deployment.start("index").terminate() == 0
        replicas = [deployment.start("run", replica=name) for name in "ab"]
        broken(1)
        broken(2)
        assert [offset_of(each) for each in deployment.records("dead_letters")] == [2, 3]
        replicas[0].kill()
        deployment.produce("rules", [no_rule], keys=[key])
        wait_until(lambda: offset_of(deployment.records("dead_letters")[-1]) == 4)
        deployment.ask([{"query_id": "q", "namespace": "n", "text": "lamp"}])
        assert deployment.result("q")["provenance"]["rules"] == version({"pin": pinning("two")})
        assert replicas[1].terminate() == 0
        letters = deployment.records("dead_letters")

    for letter in letters:
        headers = dict(letter.headers)
        assert (headers[names.STAGE], headers[names.CLASS]) == (b"rules", b"invalid")
        assert headers[names.MESSAGE].startswith(b"then.pin: ")
        assert (letter.key, letter.value) == (key.encode(), no_rule)
    assert {*map(offset_of, letters)} == {2, 3, 4}


def test_each_answer_is_by_one_set_of_rules(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """While queries pass, rules change, a replica is killed as one arrives, and a broken one is put: each query is
    answered once, by the rules that it names, from the first query on; later ones by the later rules.
    """
    old, new = {"pin": pinning("two")}, {"pin": pinning("three")}
    asked = 0
    with (
        qdrant_server.running(tmp_path / "engine") as qdrant,
        Deployment.on(broker, tmp_path, topic_names, {"qdrant": {"url": qdrant, "timeout": 20}}) as deployment,
    ):
        deployment.settings["kafka"]["topics"]["rules"] = topic_names("rules")
        broker.create_topic(topic_names("rules"), 4, {"cleanup.policy": "compact"})

        def ask(number: int = QUERIES) -> None:
            nonlocal asked
            events = [
                {"query_id": f"q{asked + at}", "namespace": "n", "text": "lamp", "limit": 1} for at in range(number)
            ]
            asked += number
            deployment.ask(events)

        def last() -> Any:
            ask(1)
            return deployment.result(f"q{asked - 1}")

        put(deployment, old)
        indexing = deployment.start("index", replica="i")
        deployment.produce("documents", [json.dumps(each).encode() for each in DOCUMENTS])
        wait_until(lambda: sum(int(each) + 1 for each in deployment.watermarks().values()) == len(DOCUMENTS))
        assert indexing.terminate() == 0
        ask()
        flow = deployment.start("run", replica="s")
        ask()
        assert last()["provenance"]["rules"] == version(old)
        put(deployment, new)
        ask()
        flow.kill()
        ask()
        flow = deployment.start("run", replica="s")
        wait_until(lambda: last()["provenance"]["rules"] == version(new))
        between = asked
        ask()
        deployment.produce("rules", [b'{"then": {}}'], keys=[rule_key("n", "pin").decode()])
        put(deployment, {"late": pinning("four")})
        both = version({**new, "late": pinning("four")})
        wait_until(lambda: last()["provenance"]["rules"] == both)
        every = deployment.output_records(asked + 1)
        found = [each for each in every if each.place[0] != topic_names("rules")]
        assert [each.kind for each in every if each not in found] == ["invalid"]
        assert_each_once(deployment, found)
        assert flow.terminate() == 0

    first = {version(old): "two", version(new): "three", both: "four"}
    answers = {each.value["query_id"]: each.value for each in found}
    for answer in answers.values():
        assert answer["results"][0]["id"] == first[answer["provenance"]["rules"]]
    names = [answers[f"q{number}"]["provenance"]["rules"] for number in range(asked)]
    assert {*names[: 2 * QUERIES]} == {version(old)}
    assert version(old) not in names[between:]
