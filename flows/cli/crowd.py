"""The circle of an experiment on the demo's documents, in one process: an interleaved experiment, the clicks of a
simulated crowd, the verdict, judgements from the clicks, and a recipe that is tuned on these.

Users know some of the documents, and ask with words of their texts. The experiment asks if the vector leg alone would
do: where documents are found by their own words, it does not.
"""

import random
import secrets
import shlex
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import orjson
from rich.console import Console

from flows.cli.demo import Corpus
from flows.cli.evaluate.evaluation import ANSWER_TIMEOUT
from flows.cli.evaluate.tune import parse_wanted, tune
from flows.cli.experiment import describe_report, make_report, read_experiment, votes_table, write_judgements
from flows.cli.ingestion import index_once
from flows.cli.output import emit, say
from flows.cli.query import QueryClient
from flows.process.embedded import Embedded, embedded_settings, start_with_settings
from flows.process.replica import feedback_replica
from operators.delivery.client import KafkaClient, ProducerRecord
from operators.experiments.click_model import Heard
from operators.experiments.crowd import LENGTH, Crowd, Wish, react, seek
from schemas.settings import Topics

EXPERIMENT: Final = "vector-alone"
OWN: Final = "hybrid"
"""The recipe that is compared with the vector leg alone, and tuned."""

TUNED: Final = "score.weights.keyword=0.2,0.5,1"
_FILES: Final = ("rankstream.yaml", "clicked.jsonl", "clicked.txt", "tuned.yaml")
USERS: Final = 12
"""Users who look for the same document."""

WANTED: Final = 60
"""Documents that users look for."""

_LEAST: Final = 5
"""Looks at a document that is judged."""

_WINDOW: Final = 10
"""Seconds in which a query's clicks count."""

_CLOSED: Final = 90.0
"""Seconds behind the last click by which each window has closed."""

_SEED: Final = 1


def visit(client: KafkaClient, topics: Topics, feedback: str, wishes: Sequence[Wish], seed: int) -> set[str]:
    """Have users ask, and send their feedback to this topic; the ids of queries with a click. Raises DeliveryError."""
    crowd, clicked = Crowd(), set[str]()
    grades = {event["query_id"]: looked_for for event, looked_for in wishes}
    with QueryClient.connect(client, topics) as query_client, closing(client.plain_producer()) as sender:
        for result in query_client.ask(({**event, "limit": LENGTH} for event, _ in wishes), ANSWER_TIMEOUT):
            key = result["query_id"]
            # Whatever the order of the answers, a user clicks alike.
            chance = random.Random(f"{seed} {key}")  # noqa: S311 - clicks are no secret
            messages = [orjson.dumps(each) for each in react(crowd, result, grades[key], chance)]
            sender.send([ProducerRecord(feedback, key.encode(), each) for each in messages])
            clicked |= {key} if messages else set()
    return clicked


def walk(
    corpus: Corpus, directory: Path, output: Path, console: Console, *, as_json: bool = False, wanted: int = WANTED
) -> None:
    """Walk the circle, with the index in `directory`: the verdict is printed, and `output` has judgements and recipe in
    place of an earlier crowd's. Raises RankstreamError, and typer.Exit as `tune` does.
    """
    output.mkdir(parents=True, exist_ok=True)
    config, queries, qrels, tuned = (output / name for name in _FILES)
    for path in (queries, qrels, tuned):
        path.unlink(missing_ok=True)
    about = {"recipe": "vector", "share": 1, "mode": "interleave", "namespaces": [corpus.namespace], "until": {}}
    topics = {name: name for name in ("experiments", "feedback", "preferences")}
    own = {"kafka": {"topics": topics}, "feedback": {"window": _WINDOW}, "experiments": {EXPERIMENT: about}}
    settings = embedded_settings(Path(), {**own, "cursor": {"signing_secret": secrets.token_hex()}})
    with start_with_settings(settings, directory) as running:
        index_once(running, corpus.name, corpus.documents, corpus.version, directory, console)
        wishes = [*seek([document for _, document in corpus.documents()], OWN, wanted, USERS, _SEED)]
        heard = _hear(running, wishes, console)
    report = make_report(EXPERIMENT, settings.experiments[EXPERIMENT].until, heard)
    if as_json:
        emit(report)
    else:
        console.print(*describe_report(report), sep="\n", soft_wrap=True)
        console.print(votes_table(report))
    say(console, write_judgements(heard, queries, qrels, _LEAST))
    vectors = settings.qdrant.vectors.model_dump(mode="json")
    # JSON is YAML.
    config.write_bytes(orjson.dumps({"qdrant": {"path": str(directory.resolve()), "vectors": vectors}}))
    tune([parse_wanted(TUNED)], qrels, queries, config=config, recipe=[OWN], write=tuned, as_json=as_json)
    judged = ["--queries", str(queries), "--qrels", str(qrels)]
    judge = ["judgements", "--experiment", EXPERIMENT, *judged, "--least", f"{_LEAST}"]
    again = ["tune", TUNED, "--config", str(config), *judged, "--recipe", OWN]
    did = map(shlex.join, (["run"], ["learn"], ["experiment", EXPERIMENT], judge, again))
    say(console, f"the commands that do this for your users: rankstream {'; rankstream '.join(did)}")


def _hear(running: Embedded, wishes: Sequence[Wish], console: Console) -> Heard:
    """The queries of the experiment, when the users have asked and the windows of their clicks have closed."""
    topics = running.settings.kafka.topics
    assert topics.feedback is not None
    with running.searching(), running.running(feedback_replica):
        say(console, f"{len(wishes)} users ask, and click: is {OWN} better (a), or the vector leg alone (b)?")
        clicked = visit(running.kafka, topics, topics.feedback, wishes, _SEED)
        say(console, f"{len(clicked)} queries have a click; their windows close in a minute")
        until = time.monotonic() + _CLOSED
        heard: Heard = {}
        while sum(each.preference is not None for each in heard.values()) < len(clicked) and time.monotonic() < until:
            time.sleep(1.0)
            heard = read_experiment(running.settings, EXPERIMENT)
    return heard
