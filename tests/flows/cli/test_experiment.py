"""`rankstream experiment` and `rankstream judgements`, on the records of a simulated crowd."""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kafka
import pytest
from pydantic import BaseModel

from bench.crowd import Asked, ask
from bench.kafka.broker import Broker
from flows.cli.evaluate.evaluation import events, read_judgements
from flows.cli.experiment import describe_report, make_report, votes_table
from operators.experiments.click_model import hear
from operators.experiments.crowd import Crowd
from operators.experiments.sequential import SequentialTest, Votes
from schemas.preference import PairedRankings, Preference
from tests.flows.cli.running import Command

TEXTS = ("garden hose", "Garden  Hose", "claw hammer", "wood screws")
GRADES = {"good": 2, "fair": 1}
BEST = ["good", "fair", "x", "y"]
WORST = ["x", "y", "z", "fair", "good"]


def crowd(queries: int, namespace: str, seed: int) -> tuple[list[PairedRankings], list[Preference]]:
    """Queries of users who prefer `b`, which ranks the best documents first, and the preferences of those who click."""
    chance, comparisons, preferences = random.Random(seed), [], []
    for number in range(queries):
        asked = Asked(namespace, TEXTS[number % len(TEXTS)], WORST, BEST, GRADES)
        comparison, preference = ask(Crowd(), "new", f"{namespace}-{number}", asked, chance, issued=number)
        comparisons.append(comparison)
        preferences += [preference] if preference is not None else []
    return comparisons, preferences


class Topics:
    """Topics of experiments on a broker, and commands that read them."""

    def __init__(self, broker: Broker, names: Callable[[str], str], folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._bootstrap = broker.bootstrap
        self.names = {role: names(role) for role in ("experiments", "preferences")}
        for name in self.names.values():
            broker.create_topic(name, 2)
        section = {"bootstrap_servers": broker.bootstrap, "topics": self.names}
        self.command = Command(folder, patch, {"kafka": section, "qdrant": {"path": str(folder / "index")}})

    def write(self, role: str, records: Sequence[BaseModel | bytes]) -> None:
        """Write records as the flows do."""
        producer = kafka.KafkaProducer(bootstrap_servers=self._bootstrap)
        for each in records:
            value = each if isinstance(each, bytes) else each.model_dump_json(exclude_none=True).encode()
            producer.send(self.names[role], value=value)
        producer.flush()
        producer.close()

    def report(self) -> dict[str, Any]:
        """The report of `experiment new --json`."""
        done = self.command("experiment", "new", "--json")
        assert done.exit_code == 0, done.output
        report: dict[str, Any] = json.loads(done.stdout)
        return report


@pytest.fixture
def topics(
    broker: Broker, topic_names: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Topics:
    """Empty topics of experiments."""
    return Topics(broker, topic_names, tmp_path, monkeypatch)


def test_users_that_prefer_one_ranking_are_heard(topics: Topics) -> None:
    """The report has the votes by namespace, without robots, other experiments and a record that is none; each query
    once, however often it is in the topic, and twice if its query_id was used again. The sums have their winner.
    """
    every = [crowd(150, "shop", 1), crowd(50, "help", 2)]
    robot = every[0][1][0].model_copy(update={"query_id": "r", "robot": True})
    other = every[0][1][0].model_copy(update={"query_id": "o", "experiment": "old"})
    for comparisons, preferences in every:
        topics.write("experiments", comparisons)
        topics.write("preferences", preferences)
    again = every[1][1][0].model_copy(update={"issued": 49})
    topics.write("preferences", [robot, other, every[0][1][0], again, b"{}"])
    every[1][1].append(again)
    report = topics.report()
    last = max(each.issued for _, preferences in every for each in preferences)
    for namespace, (comparisons, preferences) in zip(("shop", "help"), every, strict=True):
        by_side = Counter(each.preferred for each in preferences)
        clicked = {each.query_id for each in preferences}
        silent = sum(each.query_id not in clicked and each.issued <= last for each in comparisons)
        expected = {"wins": by_side["b"], "losses": by_side["a"], "ties": by_side["tie"], "silent": silent}
        assert report["namespaces"][namespace].items() >= expected.items()
    sums = Votes(*(sum(each[key] for each in report["namespaces"].values()) for key in Votes._fields))
    assert report.items() >= sums._asdict().items()
    assert report["standing"] == "won by b"
    assert (report["low"], report["high"]) == SequentialTest().interval(sums)
    assert report["robots"] == 1
    assert report["guards"] == {
        "compared": 200,
        "complete": {"a": 1.0, "b": 1.0},
        "empty": {"a": 0, "b": 0},
        "overlap": 0.5,
        "cpu_ms": 1.0,
        "calls": 0.0,
        "unread": 0.0,
    }
    done = topics.command("experiment", "new")
    assert "new: won by b" in done.stdout
    assert ": left out: experiment: missing" in " ".join(done.stderr.split())


def with_kinds(queries: int) -> tuple[list[PairedRankings], list[Preference]]:
    """Queries of a crowd, each of two kinds."""
    comparisons, preferences = crowd(queries, "shop", 6)
    kinds = (["one word", "recipe x"], ["question", "recipe x"], ["question", "recipe y"])
    return [each.model_copy(update={"kinds": kinds[each.issued % 3]}) for each in comparisons], preferences


def test_votes_are_counted_by_kind() -> None:
    """Those of a kind are the votes of its queries; a record that an earlier release wrote is of no kind."""
    comparisons, preferences = with_kinds(300)
    old = [
        PairedRankings.model_validate_json(each.model_dump_json(exclude={"kinds", "incomplete"}))
        for each in comparisons[:30]
    ]
    report = make_report("new", None, hear(old + comparisons[30:], preferences))
    found = report["kinds"]
    assert found.keys() == {"one word", "question", "recipe x", "recipe y"}
    last, heard = preferences[-1].issued, {each.query_id: each.preferred for each in preferences}
    for kind, votes in found.items():
        of_kind = [each for each in comparisons[30:] if kind in each.kinds and each.issued <= last]
        sides = Counter(heard.get(each.query_id, "silent") for each in of_kind)
        assert Votes(*(votes[name] for name in Votes._fields)) == (
            *(sides[side] for side in ("b", "a", "tie")),
            sides["silent"],
        )
    assert report["guards"]["compared"] == 300
    assert [*make_report("new", None, hear(old, preferences))["kinds"]] == []
    assert [*votes_table(report).columns[0].cells] == ["(all)", "shop", *sorted(found)]


def test_a_ranking_that_is_late_is_seen_and_moves_nothing() -> None:
    """Queries without two complete rankings are in one figure alone: by side, the share of those that were complete."""
    comparisons, preferences = with_kinds(100)
    whole = make_report("new", None, hear(comparisons, preferences))
    lost: dict[str, Any] = {"a": [], "b": [], "page": [], "overlap": 1.0, "cpu_ms": 99.0, "unread": 9}
    late = [
        each.model_copy(
            update={**lost, "query_id": f"late-{each.query_id}", "incomplete": ["b"] * (n > 4) or ["a", "b"]}
        )
        for n, each in enumerate(comparisons[:25])
    ]
    report = make_report("new", None, hear(comparisons + late, preferences))
    assert report["guards"].pop("complete") == {"a": 0.96, "b": 0.8}
    assert whole["guards"].pop("complete") == {"a": 1.0, "b": 1.0}
    assert report == whole


def test_enough_votes_without_a_winner_are_said() -> None:
    """The planned number of votes has come and shows nothing: the line says so, in place of "about 0"."""
    planned = SequentialTest().count_decisions()
    sides: list[Any] = ["b" if n < 0.53 * planned else "a" for n in range(planned)]
    preferences = [
        Preference(experiment="new", query_id=str(n), namespace="shop", issued=n, a=0, b=0, clicks=[], preferred=side)
        for n, side in enumerate(sides)
    ]
    report = make_report("new", None, hear([], preferences))
    assert (report["standing"], report["still_needed"]) == ("running", 0)
    assert any("as many votes as it takes to find 0.55" in line for line in describe_report(report))


def test_an_experiment_ends_as_its_settings_say(topics: Topics) -> None:
    """By the effect and the number of queries of `until`; without it, it goes on. It needs no secret."""
    tie = crowd(1, "shop", 3)[0][0].model_copy(update={"b": []})
    preferences = [
        Preference(
            experiment="new", query_id=str(n), namespace="shop", issued=n, a=n % 2, b=1 - n % 2, clicks=[],
            preferred="a" if n % 2 else "b",
        )
        for n in range(400)
    ]  # fmt: skip
    topics.write("experiments", [tie])
    topics.write("preferences", preferences)
    assert topics.report()["standing"] == "running"
    assert topics.report()["guards"]["empty"] == {"a": 0, "b": 1}
    # One query of 401 voted for none.
    needed = math.ceil((SequentialTest().count_decisions() - 400) * 401 / 400)
    assert f"to find 0.55 with a power of 80%: about {needed}\n" in topics.command("experiment", "new").stdout
    settings = {"recipe": "rrf", "mode": "interleave", "until": {"at_most": 400}}
    topics.command.settings["experiments"] = {"new": settings}
    assert topics.report()["standing"] == "undecided"
    settings["until"] = {"at_most": 400, "effect": 0.2, "alpha": 0.1}
    assert topics.report()["standing"] == "no difference of that size"


def test_a_shadow_needs_no_topic_of_preferences(topics: Topics) -> None:
    """Its comparisons are reported, and nothing of votes: neither a table, nor a number that is still needed."""
    topics.write("experiments", [each.model_copy(update={"mode": "shadow"}) for each in crowd(20, "shop", 5)[0]])
    del topics.command.settings["kafka"]["topics"]["preferences"]
    report = topics.report()
    said = topics.command("experiment", "new").stdout
    assert said.startswith("new: shadow\nqueries compared: 20")
    assert [word for word in ("needed", "no click") if word in said] == []
    assert (report["guards"]["compared"], report["wins"], report["losses"]) == (20, 0, 0)


def test_judgements_are_what_evaluate_reads(topics: Topics, tmp_path: Path) -> None:
    """One query a text, whatever its case; a document that more users click on has a greater grade, wherever it stood;
    with less looks than asked for it has none.
    """
    comparisons, preferences = crowd(1200, "shop", 4)
    untold = comparisons[0].model_copy(update={"query_id": "untold", "text": None})
    topics.write("experiments", [*comparisons, untold])
    topics.write("preferences", preferences)
    queries, qrels = tmp_path / "queries.jsonl", tmp_path / "qrels.txt"
    files = ("--queries", str(queries), "--qrels", str(qrels))
    done = topics.command("judgements", "--experiment", "new", *files)
    assert done.exit_code == 0, done.output
    assert "judgements of 3 queries" in done.stdout
    assert "queries left out: 1 without a text" in " ".join(done.stdout.split())
    asked = {event["query_id"]: event["text"] for event in events(queries)}
    assert {*asked.values()} == {"garden hose", "claw hammer", "wood screws"}
    judged = read_judgements(qrels, queries, None)
    assert judged.keys() == asked.keys()
    for grades in judged.values():
        assert grades["good"] > grades["fair"] > max(grades.get(id_, 0) for id_ in "xyz")
    refused = topics.command("judgements", "--experiment", "new", *files)
    assert refused.exit_code == 2
    for path in (queries, qrels):
        path.unlink()
    done = topics.command("judgements", "--experiment", "new", *files, "--least", "5000")
    assert "no document has 5000 looks" in str(done.exception)
    assert not queries.exists()


@pytest.mark.parametrize("command", [("experiment", "new"), ("judgements", "--experiment", "new")])
def test_what_is_missing_is_said(command: tuple[str, ...], topics: Topics, tmp_path: Path) -> None:
    """An experiment without a query, and a configuration without the topics."""
    files = ("--queries", str(tmp_path / "q"), "--qrels", str(tmp_path / "r")) if command[0] == "judgements" else ()
    assert str(topics.command(*command, *files).exception).endswith("is in kafka.topics.experiments ('new')")
    topics.command.settings["experiments"] = {"knew": {"recipe": "rrf"}}
    assert str(topics.command(*command, *files).exception).endswith("; did you mean `knew`? ('new')")
    topics.command.settings["experiments"] = {}
    topics.command.settings["kafka"]["topics"] = {}
    assert "kafka.topics" in str(topics.command(*command, *files).exception)
