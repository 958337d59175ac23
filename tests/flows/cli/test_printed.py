"""Every command: no text of others that it prints is obeyed by the terminal, or read as markup."""

import io
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind

from flows.cli import check, collections, ingestion, output, replay
from flows.cli.check import Finding
from flows.cli.demo import span_tree
from flows.cli.evaluate import command, sources
from flows.cli.evaluate.evaluation import AnswerCounts, ReportRow
from flows.cli.exports import Unwritten
from flows.cli.ingestion import Ingested, RejectedDocument
from flows.cli.output import print_result
from flows.cli.query import refusal
from flows.cli.run import print_outcome
from operators.clients.qdrant.answers import CollectionInfo
from operators.collections.making import Ensured
from operators.collections.requirements import Gap, Requirement, Severity, Surveyed
from operators.delivery import topics as kafka_topics
from operators.delivery.replay import Position
from schemas.errors import BackendBadResponse
from schemas.settings import KafkaSettings, load
from tests import warm
from tests.flows.cli.running import Command
from tests.flows.cli.test_answers import HIT, RESULT
from tests.flows.cli.test_pool_ranking import pool
from tests.schemas.test_printable import obeyed

EVIL = "\x1b]0;t\x07\x1b[2J\x9bm\u202e\u2066\u200b\u2028\x7f\r\nforged [red]x[/red] :bomb: [/]"
"""A text that changes a terminal's title, clears it, forges a line, reorders, hides, and is markup."""

TAME = "[red]x[/red] :bomb: [/]"
"""The end of it, of which nothing is obeyed."""

Shown = Callable[[], str]


def tame(text: str) -> str:
    """The text that a command printed, which quotes EVIL, and of which nothing is obeyed or forged."""
    assert obeyed(text, "\n") == []
    assert TAME in " ".join(text.split())
    assert not any(line.startswith("forged") for line in text.splitlines())
    return text


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """The printed text, tame."""

    return lambda: tame("".join(capsys.readouterr()))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """No line is wrapped."""
    monkeypatch.setenv("COLUMNS", "250")


def answer() -> dict[str, Any]:
    """A result that is evil wherever a text of others stands."""
    stage = {"stage": EVIL, "input": 0.1, "output": 0.5, "parameters": {EVIL: EVIL}, "values": {EVIL: {EVIL: 1.0}}}
    explanation = {"legs": {EVIL: {"rank": 0, "score": 0.7}}, "stages": [stage]}
    hit = {**HIT, "id": EVIL, "text": EVIL, "legs": {EVIL: {"rank": 0, "score": 0.7}}, "explanation": explanation}
    return {
        **RESULT,
        "results": [hit],
        "legs": [{"name": EVIL}],
        "degraded": [{"stage": EVIL, "reason": EVIL}],
        "warnings": [EVIL],
        "next_cursor": EVIL,
        "debug": {**RESULT["debug"], "stages_hit": [EVIL]},
    }


def test_query_and_demo_show_an_answer(shown: Shown) -> None:
    """Results, explanations, stages and warnings, and the text of the query."""
    print_result(answer(), EVIL, as_json=False)
    shown()


def test_query_shows_a_refusal(shown: Shown) -> None:
    """One line, whatever the reason quotes."""
    print_result(refusal("q", EVIL, EVIL), EVIL, as_json=False)
    assert len(shown().splitlines()) == 1


def test_json_is_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Escaped: one line of JSON, which decodes to what it was."""
    print_result(answer(), EVIL, as_json=True)
    printed = capsys.readouterr().out
    assert obeyed(printed, "\n") == []
    assert len(printed.splitlines()) == 1
    assert orjson.loads(printed) == answer()


def test_demo_shows_a_trace(shown: Shown) -> None:
    """Spans are named after collections."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    provider.get_tracer("t").start_span(f"query {EVIL}", kind=SpanKind.PRODUCER).end()
    output.out.print(span_tree(spans.get_finished_spans()))
    shown()


def test_a_span_is_shown_once() -> None:
    """Also one that another span of the same trace links to; one of another trace that it links to is shown, too."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span("send", kind=SpanKind.PRODUCER):
        (call := tracer.start_span("call")).end()
        (other := tracer.start_span("other", Context())).end()
        tracer.start_span("query", links=[Link(each.get_span_context()) for each in (call, other)]).end()
    with output.out.capture() as captured:
        output.out.print(span_tree(spans.get_finished_spans()))
    assert [captured.get().count(f"{name} ") for name in ("send", "call", "other", "query")] == [1, 1, 1, 1]


def test_index_shows_rejected_documents(shown: Shown) -> None:
    """A line each."""
    print_outcome(Ingested(2, [RejectedDocument(EVIL, EVIL, EVIL, EVIL)]), Unwritten(0, 1, 0), as_json=False)
    assert len(shown().splitlines()) == 3


@pytest.mark.parametrize("bar", ["indexing", "tuning"])
def test_a_progress_bar_shows_a_name(bar: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's name or a recipe's, on a terminal: beside what draws the bar, nothing of it is obeyed."""
    file = io.StringIO()
    console = type(output.stderr)(file=file, force_terminal=True, color_system=None, width=250)
    monkeypatch.setattr(ingestion, "ingest", lambda *_: Ingested(0, []))
    if bar == "indexing":
        ingestion.ingest_with_bar(KafkaSettings(), EVIL, [], 0, console, 1.0)
    else:
        with output.progress(EVIL, console) as tell:
            tell(1, None)
    drawn = file.getvalue()
    assert TAME in drawn
    assert obeyed(drawn, "\n", "\r", "\x1b") == []
    assert "\x1b]" not in drawn
    assert "\x1b[2J" not in drawn


def test_topics_shows_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Collections are named by servers and configurations."""
    monkeypatch.setattr(kafka_topics, "create", lambda _: [EVIL])
    monkeypatch.setattr(collections, "ensure_collections", lambda *_, **__: Ensured([EVIL], [EVIL]))
    tame(Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}})("topics").output)


def test_collections_shows_what_a_server_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Names of fields and vectors, limits, differences, and an error."""
    info = CollectionInfo(
        1, 1, {EVIL: {"size": EVIL, "distance": EVIL}}, {EVIL: {"modifier": EVIL}}, {}, {}, {EVIL: EVIL}
    )
    gap = Gap(Requirement("dense"), Severity.ERROR, EVIL, EVIL)
    found = [Surveyed(EVIL, EVIL, info, gaps=[gap]), Surveyed(EVIL, EVIL, error=BackendBadResponse(EVIL))]
    monkeypatch.setattr(collections, "survey_collections", lambda *_: found)
    tame(Command(tmp_path, monkeypatch, {"qdrant": {"url": "http://127.0.0.1:9"}})("collections").output)


def test_check_shows_a_finding(shown: Shown) -> None:
    """One line, whatever a server answered."""
    check.show(Finding("error", EVIL, EVIL, EVIL), as_json=False)
    assert len(shown().splitlines()) == 1


def test_evaluate_shows_rows_and_queries(shown: Shown) -> None:
    """Names of recipes, ids of queries, and names of files."""
    sources.print_report([command.figures_table([ReportRow(EVIL, {"MRR@10": 1.0}, AnswerCounts(Counter(ok=1)))])])
    values = {"MRR@10": {EVIL: 0.5}}, {"MRR@10": {EVIL: 1.0}}
    sources.print_report(command.describe_comparison(command.compare_values(*values, "MRR@10", 0), "a", "b"))
    shown()


def test_replay_shows_dead_letters(shown: Shown) -> None:
    """Headers of class, stage and place, of what is wrong, and of what was too large."""
    quoted = dict.fromkeys(("class", "stage", "place", "message"), EVIL)
    output.out.print(replay.rehearsal_table([{**quoted, "age_s": 0.0, "bytes": 2}]))
    for line in replay.Tally(refused={Position(EVIL, 0, 1): EVIL}).lines("sent"):
        output.say(output.stderr, line)
    shown()


def test_config_shows_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """YAML that loads to the same, and JSON that decodes to it: nothing is lost that is escaped."""
    settings = {"qdrant": {"url": "http://q", "destinations": {EVIL: "c"}}, "defaults": {"namespace": EVIL}}
    command = Command(tmp_path, monkeypatch, settings)
    printed = command("config").stdout
    assert obeyed(printed, "\n") == []
    again = tmp_path / "again.yaml"
    again.write_text(printed)
    assert load(again) == load(tmp_path / "rankstream.yaml")
    listed = [orjson.loads(line) for line in command("config", "--json").stdout.splitlines()]
    assert {each["path"]: each["value"] for each in listed}["defaults.namespace"] == EVIL


def run(*arguments: str, given: bytes = b"", script: str | None = None) -> tuple[str, str]:
    """Standard output and error of the program, or of a script in its place."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("RANKSTREAM_")}
    if script is None:
        done = warm.run(arguments, env, 120, given)
        return done.stdout, done.stderr
    command = [sys.executable, "-c", script, *arguments]
    printed = subprocess.run(command, input=given, env=env, capture_output=True, timeout=120)
    return printed.stdout.decode(), printed.stderr.decode()


def test_rank_shows_results_and_errors() -> None:
    """Ids of documents and queries come back escaped, and what is wrong with a line is one line."""
    document = pool()
    query = {**document["query"], "query_id": EVIL}
    lines = [{**document, "query": query}, {**document, "query": {**query, "recipe": EVIL}}]
    out, err = run("rank", given=b"\n".join(map(orjson.dumps, lines)))
    assert obeyed(out + err, "\n") == []
    assert orjson.loads(out)["query_id"] == EVIL
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("arguments", [(), ("--debug",)])
def test_a_failure_shows_what_it_quotes(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """One line, or its traceback: the name of a document, which a file gave."""
    qrels = tmp_path / "qrels"
    qrels.write_text("q 0 d\x1b[2J\u202e 1\n")
    queries = tmp_path / "queries.jsonl"
    queries.write_bytes(orjson.dumps({"query_id": "q", "text": "x"}))
    documents = tmp_path / "documents.jsonl"
    documents.write_bytes(orjson.dumps({"id": "e", "text": "x"}))
    files = ("--qrels", str(qrels), "--queries", str(queries), "--documents", str(documents))
    out, err = run(*arguments, "evaluate", *files)
    assert "such as d" in err
    assert obeyed(out + err, "\n") == []
    assert ("Traceback" in err) == bool(arguments)


PRINTING = """
import sys
from flows.cli import __main__, main, output
def printing():
    output.say(output.out, "Straße 東京")
    output.emit({"text": "Straße 東京"})
main.run_command_line = printing
__main__.main()
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_of_another_encoding_gets_the_rest(encoding: str) -> None:
    """Question marks in a text, and JSON whole: it has one encoding everywhere."""
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    printed = subprocess.run([sys.executable, "-c", PRINTING], env=env, capture_output=True, timeout=120)
    assert printed.stderr == b""
    text, line = printed.stdout.splitlines()
    assert text == "Straße 東京".encode(encoding, "replace")
    assert orjson.loads(line) == {"text": "Straße 東京"}


LOGGING = """
import logging, sys
from flows.process import logs
from schemas.settings import TelemetrySettings
logs.configure(TelemetrySettings(log_format=sys.argv[1]))
evil = sys.stdin.buffer.read().decode()
logging.getLogger("library").warning("of %s", evil)
import structlog
log = structlog.stdlib.get_logger("ours")
log.warning(evil, reason=evil, several=[evil])
try:
    raise ValueError(evil)
except ValueError:
    log.exception("failed")
"""


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_run_logs_what_is_quoted(log_format: str) -> None:
    """In either format: a library's line, an event, its values, and a traceback."""
    _, err = run(log_format, given=EVIL.encode(), script=LOGGING)
    assert err.count(TAME) >= 4
    assert obeyed(err, "\n") == []
    assert sum(line.startswith("forged") for line in err.splitlines()) <= 1  # the traceback's own line ends
