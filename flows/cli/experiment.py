"""`rankstream experiment` and `rankstream judgements`: the ranking that users prefer, and judgements from their clicks.

Both read the topics of experiments to their present ends, and write nothing to Kafka: a winner is reported, and it is
people who switch.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from rich.table import Table

from flows.assembly.delivery import ENDS_TIMEOUT, connect
from flows.cli.config import begin
from flows.cli.console.judgements import name_query
from flows.cli.ingestion import read_topic
from flows.cli.output import Config, Json, emit, out, say, stderr
from operators.delivery.client import KafkaClient
from operators.evaluation.metrics import mean, qrels_lines
from operators.experiments.click_model import ROBOT, SHADOWED, Heard, QueryIdentity, fit_clicks, hear, read_pages
from operators.experiments.impression import SIDES
from operators.experiments.sequential import SequentialTest, Standing, Votes
from operators.query.zero_results import suggest
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.event import json_object, validate
from schemas.preference import PairedRankings, Preference
from schemas.settings import Settings
from schemas.settings.ranking import Until
from schemas.texts import json_line, printable

Written = TypeVar("Written", PairedRankings, Preference)

_MEANS: Final = ("overlap", "cpu_ms", "calls", "unread")
_LARGEST: Final = 700.0
"""Logarithm of the largest e-value that is printed."""


def experiment(
    name: Annotated[str, typer.Argument(help="Name of the experiment.")], config: Config = None, as_json: Json = False
) -> None:
    """Say which of two rankings the users of an experiment prefer, with an error that holds however often you look.

    Nothing is switched.
    """
    settings = begin(config)
    known = settings.experiments.get(name)
    report = make_report(name, known.until if known is not None else None, read_experiment(settings, name))
    if as_json:
        emit(report)
    else:
        for line in describe_report(report):
            say(out, line)
        if report["standing"] is not Standing.SHADOW:
            out.print(votes_table(report))


def judgements(
    experiment: Annotated[str, typer.Option(help="Name of the experiment.")],
    queries: Annotated[Path, typer.Option(help="New JSON Lines file for the queries.")],
    qrels: Annotated[Path, typer.Option(help="New file for the judgements, in TREC format.")],
    config: Config = None,
    least: Annotated[float, typer.Option(min=0, help="Minimum looks at a document for a judgement.")] = 10,
) -> None:
    """Write judgements from the clicks of an interleaved experiment, which `evaluate` and `tune` read.

    A grade is the share of users who click on the document, of those who look at it, in tenths. Exit code 1 if no
    document was looked at often enough.
    """
    settings = begin(config)
    for path in (queries, qrels):
        if path.exists():
            raise typer.BadParameter(f"{path} exists")
    say(out, write_judgements(read_experiment(settings, experiment), queries, qrels, least))


def write_judgements(heard: Heard, queries: Path, qrels: Path, least: float) -> str:
    """Write both files, with documents that have at least `least` looks, and return what they hold, in words.

    Raises InputError if there is no such document, and OSError if a file exists.
    """
    pages, texts, left_out = read_pages(heard)
    left = "; queries left out: " + (", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "none")
    judged = {
        question: grades
        for question, documents in sorted(fit_clicks(pages).items())
        if (grades := {document: each.grade for document, each in sorted(documents.items()) if each.looks >= least})
    }
    if not judged:
        raise InputError(DeadLetterClass.INVALID, f"no document has {least:g} looks in {len(pages)} pages{left}")
    with queries.open("x", encoding="utf-8") as asked, qrels.open("x", encoding="utf-8") as graded:
        for question, grades in judged.items():
            query_id, namespace = name_query(question.text, question.namespace), question.namespace
            asked.write(json_line({"query_id": query_id, "namespace": namespace, "text": texts[question]}) + "\n")
            graded.writelines(qrels_lines(query_id, grades))
    return f"{sum(map(len, judged.values()))} judgements of {len(judged)} queries, from {len(pages)} pages{left}"


def read_experiment(settings: Settings, name: str) -> Heard:
    """The queries of an experiment. Raises InputError if there are none, and as `read_experiments`."""
    heard = read_experiments(settings, [name])[name]
    if not heard:
        near = suggest(name, [each for each in settings.experiments if each != name])
        raise invalid("experiment", f"no query of it is in kafka.topics.experiments{near}", name)
    return heard


def read_experiments(settings: Settings, names: Collection[str]) -> dict[str, Heard]:
    """The queries of each of these experiments; each topic is read once.

    A topic that is not set has none: shadows need no topic of preferences. Raises DeliveryError.
    """
    topics, client = settings.kafka.topics, connect(settings.kafka)
    preferences = _read(client, topics.preferences, Preference, names)
    comparisons = _read(client, topics.experiments, PairedRankings, names)
    return {name: hear(comparisons[name], preferences[name]) for name in names}


def report_configured(settings: Settings) -> list[dict[str, Any]]:
    """The report of each configured experiment with its lines for people, which are all there is without a query.

    Raises DeliveryError.
    """
    reports, names = list[dict[str, Any]](), sorted(settings.experiments)
    for name, heard in (read_experiments(settings, names) if names else {}).items():
        if heard:
            report = make_report(name, settings.experiments[name].until, heard)
            reports.append({**report, "lines": [*describe_report(report)]})
        else:
            reports.append({"experiment": name, "lines": [f"{name}: no query yet"]})
    return reports


def _read(
    client: KafkaClient, topic: str | None, kind: type[Written], names: Collection[str]
) -> Mapping[str, list[Written]]:
    """The records by experiment."""
    found: dict[str, list[Written]] = {name: [] for name in names}
    for record in read_topic(client, topic, ENDS_TIMEOUT) if topic is not None else ():
        if record.value is None:
            continue
        try:
            written = validate(kind, json_object(record.value, len(record.value)))
        except InputError as error:
            say(stderr, f"{topic}:{record.partition.partition}:{record.offset}: left out: {error}", "red")
        else:
            if written.experiment in found:
                found[written.experiment].append(written)
    return found


def make_report(name: str, until: Until | None, heard: Heard) -> dict[str, Any]:
    """The verdict on an experiment by its queries, as JSON; without `until`, by a test with its defaults."""
    plan = until if until is not None else Until()
    test, said = SequentialTest(plan.alpha, plan.power, plan.effect), Counter(each.vote for each in heard.values())
    voted = {query: each.vote for query, each in heard.items() if each.vote in Votes._fields}
    comparisons = {query: each.comparison for query, each in heard.items() if each.comparison is not None}
    votes = Votes(**Counter(voted.values()))

    def describe_groups(groups: Callable[[QueryIdentity], Iterable[str]]) -> dict[str, Any]:
        counted = defaultdict[str, Counter[str]](Counter)
        for query, vote in voted.items():
            for group in groups(query):
                counted[group][vote] += 1
        return {group: describe_votes(test, Votes(**counts)) for group, counts in sorted(counted.items())}

    standing = test.judge(votes, plan.at_most) if said.keys() - {SHADOWED} else Standing.SHADOW
    return {
        "experiment": name,
        "standing": standing,
        **describe_votes(test, votes),
        "alpha": test.alpha,
        "power": test.power,
        "effect": test.effect,
        "still_needed": test.count_needed(votes) if standing is Standing.RUNNING else 0,
        "robots": said[ROBOT],
        "namespaces": describe_groups(lambda query: query[:1]),
        "kinds": describe_groups(lambda query: each.kinds if (each := comparisons.get(query)) is not None else ()),
        "guards": measure_guards([*comparisons.values()]),
    }


def describe_votes(test: SequentialTest, votes: Votes) -> dict[str, Any]:
    """The votes, the preference for b, its interval, and the e-value against .5, as JSON."""
    low, high = test.interval(votes)
    preference = votes.wins / votes.decisions if votes.decisions else None
    e_value = math.exp(min(test.log_e_value(votes), _LARGEST))
    return {**votes._asdict(), "preference": preference, "low": low, "high": high, "e_value": e_value}


def measure_guards(comparisons: Sequence[PairedRankings]) -> dict[str, Any]:
    """The figures that a winner must not have paid for: incomplete and empty rankings, overlap, and the cost of `b`."""
    compared = [each for each in comparisons if not each.incomplete]
    return {
        "compared": len(compared),
        "complete": {side: mean([side not in each.incomplete for each in comparisons]) for side in SIDES},
        "empty": {side: sum(not getattr(each, side) for each in compared) for side in SIDES},
        **{name: mean([getattr(each, name) for each in compared]) for name in _MEANS},
    }


def describe_report(report: Mapping[str, Any]) -> Iterator[str]:
    """The verdict in lines, for people."""
    yield f"{report['experiment']}: {report['standing']}"
    if report["preference"] is not None:
        interval = f"{100 - 100 * report['alpha']:g}% interval, at all looks"
        yield f"preference for b: {report['preference']:.3f}; {interval}: {report['low']:.3f} to {report['high']:.3f}"
    if report["standing"] is Standing.RUNNING:
        found, needed = f"find {0.5 + report['effect']:g} with a power of {report['power']:.0%}", report["still_needed"]
        if needed == 0:
            yield f"there are as many votes as it takes to {found}: the preference is probably nearer to .5"
        else:
            said = "unknown, for no query has voted" if needed is None else f"about {needed:,}"
            yield f"queries still needed to {found}: {said}"
    guard = report["guards"]
    empty = ", ".join(f"{count} empty of {side}" for side, count in guard["empty"].items())
    yield f"queries compared: {guard['compared']:,}, {empty}; left out: {report['robots']} from robots"
    complete = ", ".join(f"{share:.1%} of {side}" for side, share in guard["complete"].items())
    yield f"rankings that were complete in time: {complete}"
    means = f"overlap {guard['overlap']:.2f}, {guard['unread']:.1f} documents without a score of the reranker"
    yield f"in the mean: {means}, {guard['cpu_ms']:.2f} ms of CPU and {guard['calls']:.2f} calls for b"


def votes_table(report: Mapping[str, Any]) -> Table:
    """A row for all votes, one a namespace, and one a kind of queries: each interval holds by itself, so one of twenty
    may be wrong.
    """
    table = Table("queries", "for b", "for a", "ties", "no click", "preference", "interval")
    for section in ([("(all)", report), *report["namespaces"].items()], report["kinds"].items()):
        for name, each in section:
            counts = (str(each[key]) for key in Votes._fields)
            preference = "-" if each["preference"] is None else f"{each['preference']:.3f}"
            table.add_row(printable(name), *counts, preference, f"{each['low']:.3f} to {each['high']:.3f}")
        table.add_section()
    return table
