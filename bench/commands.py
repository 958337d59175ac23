"""The commands of the bench: each measures, reports, and gives its exit code."""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from bench import (
    caching,
    calls,
    comparison,
    connections,
    crowd,
    experiments,
    micro,
    models,
    paraphrases,
    payloads,
    qdrant_server,
    quality,
    ranking,
    real_server,
    recall,
    report,
    rerank_faults,
    reranking,
    rules,
    scaling,
    system,
)
from bench.dimensions import Dimension
from bench.flame import draw
from bench.judged import JudgedSet
from bench.machine import machine
from bench.plot import plot
from bench.profiling import sampling, thread_profiles
from bench.rig import EMBED_MS, QDRANT_MS, RERANK_MS, rig
from bench.rounds import Plan, compare, warm_up
from bench.saturation import saturate
from bench.soak import Soak, soak, sound
from bench.subject import ASYNCIO, PEERS, RANKSTREAM
from bench.variants import VARIANTS
from flows.assembly.delivery import connect
from flows.cli.crowd import visit
from flows.cli.evaluate.evaluation import AnswerCounts
from flows.process import logs
from operators.experiments.sequential import SequentialTest
from schemas.errors import ConfigError
from schemas.settings import TelemetrySettings, load

COMPARED = PEERS | RANKSTREAM
SUBJECTS = COMPARED | VARIANTS
BACKENDS: dict[str, Any] = {"qdrant_ms": QDRANT_MS, "rerank_ms": RERANK_MS}

out = Console()
stderr = Console(stderr=True)


def flow(plan: Plan, names: Sequence[str], as_json: bool, picture: Path | None) -> int:
    """Measure each subject under every load; the exit code. Raises BenchError and BrokerError."""
    # Before the rig starts, which is a load too.
    measured_on = machine()
    with rig() as started:
        outcomes = compare(started, [SUBJECTS[name] for name in names], plan, stderr.print)
    subjects = {name: outcome.report() for name, outcome in outcomes.items()}
    ratios = comparison.ratios(subjects)
    figures = {
        "machine": measured_on,
        "backends": BACKENDS,
        "rounds": plan.rounds,
        "subjects": subjects,
        "ratios": ratios,
        "goals": comparison.goals(ratios) if ASYNCIO in subjects else [],
    }
    tables = (
        report.figures_table(figures),
        report.busy_table(figures),
        report.ratios_table(figures),
        report.goals_table(figures),
    )
    _show(figures, as_json, *tables)
    if picture is not None:
        plot(subjects, picture)
    if lost := sum(outcome.lost() for outcome in outcomes.values()):
        stderr.print(f"{lost} queries without an answer", style="red")
    return 1 if lost else 0


def called(functions: int | None, as_json: bool) -> int:
    """Count the Python calls a query; the exit code. Raises BenchError and BrokerError."""
    with rig() as started, tempfile.TemporaryDirectory() as scratch:
        figures = calls.measure(started, Path(scratch))
    if functions is not None:
        figures = {load: {calls.shorten(name): count for name, count in each.items()} for load, each in figures.items()}
    else:
        figures = {load: calls.by_room(each) for load, each in figures.items()}
    _show(figures, as_json, report.calls_table(figures, functions))
    return 0


def saturated(queries: int, client: str, at_once: bool, as_json: bool) -> int:
    """Soak the flow on a client at saturation; the exit code. Raises BenchError and BrokerError."""
    measured_on = machine()
    backends = dict.fromkeys(BACKENDS, 0) if at_once else BACKENDS
    with rig(**backends) as started:
        figures = saturate(started, RANKSTREAM[client], queries, stderr)
    figures |= {"machine": measured_on, "backends": backends, "client": client}
    _show(figures, as_json, report.bursts_table(figures), report.held_table(figures))
    if not as_json:
        out.print(f"{figures['sent']} sent, {figures['lost']} lost, {figures['twice']} twice: {figures['statuses']}")
    return 0 if sound(figures) and figures["steady"] else 1


def soaked(plan: Soak, client: str, at_once: bool, as_json: bool) -> int:
    """Soak the flow on a client; the exit code. Raises BenchError and BrokerError."""
    measured_on = machine()
    backends = dict.fromkeys(BACKENDS, 0) if at_once else BACKENDS
    with rig(**backends) as started:
        figures = soak(started, RANKSTREAM[client], plan, stderr)
    if as_json:
        _emit({"machine": measured_on, "backends": backends, "client": client, **figures})
    else:
        out.print(report.windows_table(figures), report.held_table(figures))
        out.print(f"{figures['sent']} sent, {figures['lost']} lost, {figures['twice']} twice: {figures['statuses']}")
    if not (figures["flat"] or figures["steady"]):
        stderr.print(
            "something grew, but the load was not steady: measure again with nothing else running", style="red"
        )
    return 0 if sound(figures) else 1


def profile(plan: Plan, name: str, as_json: bool, picture: Path | None) -> int:
    """Profile a subject at the plan's highest rate; the exit code. Raises BenchError and BrokerError."""
    measured_on = machine()
    phase = plan.phase(max(plan.rates))
    with rig() as started, started.running(SUBJECTS[name]) as running, tempfile.TemporaryDirectory() as scratch:
        warm_up(running, plan, stderr.print, name)
        stderr.print(f"{name}: profile at {phase.rate:g} queries/s")
        output = Path(scratch) / "stacks"
        with sampling(running.pid, plan.seconds, output):
            measurement = running.measure(phase)
        stacks = output.read_text()
    threads = [each.report() for each in thread_profiles(stacks)]
    if as_json:
        _emit({"machine": measured_on, "profile": {"rate": phase.rate, "threads": threads}})
    else:
        out.print(*report.profile_tables(threads))
    if picture is not None:
        draw(stacks, picture)
    return 0 if measurement.answered == measurement.sent else 1


def ranked(rounds: int, as_json: bool) -> int:
    """Measure every recipe; the exit code."""
    measured = {"machine": machine(), **ranking.figures(rounds)}
    _show(measured, as_json, report.ranking_table(measured))
    return 0


def reranked(rounds: int, as_json: bool) -> int:
    """Measure the rerank operator; the exit code."""
    measured = {"machine": machine(), **reranking.figures(rounds)}
    _show(measured, as_json, report.reranking_table(measured))
    return 0


def carried(rounds: int) -> int:
    """Measure a call over the HTTP pool beside httpx's own, as JSON; the exit code."""
    _show({"machine": machine(), **connections.connections(rounds)}, as_json=True)
    return 0


def modelled(arguments: argparse.Namespace) -> int:
    """Measure the models in this process; the exit code."""
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    measured = {"machine": machine(), **models.figures(arguments.rounds, arguments.cache)}
    if arguments.plot is not None:
        models.plot(measured, arguments.plot)
    _show(measured, arguments.json, report.models_table(measured, models.ROWS))
    return 0


def failing(queries: int, as_json: bool) -> int:
    """Measure the cost of reranker failures; the exit code is 1 if one cost more calls than promised."""
    measured = {"machine": machine(), **rerank_faults.figures(queries)}
    _show(measured, as_json, report.faults_table(measured))
    return 0 if all(row["kept"] for row in measured["rows"]) else 1


def cached(plan: caching.Rounds, client: str, as_json: bool) -> int:
    """Measure the exact cache; the exit code, 1 if it keeps less than promised. Raises BenchError and BrokerError."""
    measured_on = machine()
    with rig() as started:
        figures = caching.measure(started, client, plan, stderr.print)
    _show({"machine": measured_on, "backends": BACKENDS, **figures}, as_json, report.caches_table(figures))
    return 0 if caching.kept(figures) else 1


def ruled(plan: Plan, client: str, count: int, as_json: bool) -> int:
    """Measure the cost of rules; the exit code, 1 if it is more than promised. Raises BenchError and BrokerError."""
    with rig() as started:
        figures = rules.measure(started, client, plan, count, stderr.print)
    _show({"machine": machine(), "backends": BACKENDS, **figures}, as_json, report.rules_table(figures))
    return 0 if rules.kept(figures) else 1


def compared(judged: Path | None, as_json: bool) -> int:
    """Compare labelled pairs of questions; the exit code, 1 if a close one is taken for a paraphrase."""
    pairs = paraphrases.written() if judged is None else paraphrases.judged(judged)
    figures = paraphrases.figures(pairs)
    _show(figures, as_json, report.paraphrases_table(figures), report.kinds_table(figures))
    return 1 if any(row["false_hits"]["checked"] for row in figures["thresholds"]) else 0


def recalled(arguments: argparse.Namespace) -> int:
    """Measure the recall of the vector leg; the exit code."""
    plan = recall.Plan(arguments.points, arguments.namespaces, arguments.queries, arguments.rounds)
    measured = recall.figures(plan, arguments.cache, arguments.index)
    _show({"machine": machine(), **measured}, arguments.json, report.recall_table(measured))
    return 0


def judged(arguments: argparse.Namespace) -> int:
    """Measure quality beside cost; the exit code. Raises RankstreamError."""
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    settings = load(arguments.config) if arguments.config is not None else None
    asked = quality.Asked(
        arguments.documents, arguments.queries, arguments.qrels, arguments.recipe, settings, arguments.index
    )
    title = arguments.documents.parent.name
    rows = []
    for row in quality.rows(asked, stderr):
        rows.append(row)
        stderr.print(f"{row['recipe']}: done")
    if arguments.plot is not None:
        quality.plot(title, rows, arguments.plot)
    _show({"machine": machine(), "rows": rows}, arguments.json, report.quality_table(title, rows))
    tallies = {row["recipe"]: AnswerCounts(Counter(row["answers"]), Counter(row["lost"])) for row in rows}
    lost = list(filter(None, (tally.describe_lost(recipe) for recipe, tally in tallies.items())))
    for said in lost:
        stderr.print(said, style="red")
    return 1 if lost and not arguments.allow_partial else 0


def parts(rounds: int, update: bool, as_json: bool) -> int:
    """Measure single parts of the flow; the exit code, 1 if one is slower than the baseline allows."""
    measured = micro.figures(rounds)
    if update:
        micro.update(measured)
    known = micro.baseline()
    slower = micro.slower(measured, known)
    told = {"machine": machine(), **measured, "baseline": known, "slower": slower}
    _show(told, as_json, report.parts_table(measured, known))
    for name, times in slower.items():
        stderr.print(f"{name}: {times} times its baseline", style="red")
    return 1 if slower else 0


def scaled(dimensions: Sequence[Dimension], rounds: int, client: str, as_json: bool, pictures: Path | None) -> int:
    """Measure how cost grows along each dimension; the exit code. Raises BenchError and BrokerError."""
    measured_on = machine()
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
    measured = []
    for dimension in dimensions:
        # A broker of its own: the topics of one dimension would slow down the next.
        with rig() as started:
            figures = scaling.scaling(started, client, dimension, rounds, stderr.print)
        if pictures is not None:
            scaling.plot(figures, pictures / f"growth-{dimension.name}.png")
        measured.append(figures)
    tables = [table for figures in measured for table in report.scaling_tables(figures)]
    _show({"machine": measured_on, "backends": BACKENDS, "dimensions": measured}, as_json, *tables)
    if not_ok := sum(figures["not_ok"] for figures in measured):
        stderr.print(
            f"{not_ok} queries without a full answer, which cost less: use a machine that is idle", style="red"
        )
    return 1 if not_ok else 0


def served(scales: Sequence[real_server.Scale], names: Sequence[str], plan: Plan, as_json: bool) -> int:
    """Measure on a real Qdrant server; the exit code. Raises BenchError and BrokerError."""
    binary = qdrant_server.named()
    if binary is None:
        stderr.print(f"{qdrant_server.VARIABLE} names no Qdrant server", style="red")
        return 2
    measured_on = machine()
    indexes = [real_server.measure(binary, scale, names, plan, stderr.print) for scale in scales]
    figures = {
        "machine": measured_on,
        "backends": {"rerank_ms": RERANK_MS, "embed_ms": EMBED_MS},
        "rounds": plan.rounds,
        "indexes": indexes,
    }
    _show(figures, as_json, *(table for each in indexes for table in report.server_tables(each)))
    if lost := sum(each["lost"] for each in indexes):
        stderr.print(f"{lost} queries without an answer", style="red")
    return 1 if lost else 0


def answered(
    directory: Path,
    model: system.Model,
    candidates: Sequence[int],
    names: Sequence[str],
    load: system.Load,
    as_json: bool,
) -> int:
    """Measure the whole system on judged queries; the exit code. Raises BenchError, BrokerError and RankstreamError."""
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    judged = JudgedSet.read(directory)
    measured_on = machine()
    figures = system.measure(judged, model, candidates, names, load, stderr.print)
    _show({"machine": measured_on, **figures}, as_json, *report.system_tables(figures))
    if figures["lost"]:
        stderr.print(f"{figures['lost']} queries without an answer", style="red")
    return 1 if figures["lost"] else 0


def kept(writes: Sequence[float], as_json: bool) -> int:
    """Simulate the payload cache; the exit code."""
    rows = payloads.figures(writes)
    _show({"rows": rows}, as_json, report.payloads_table(rows))
    return 0


def experimented(queries: int, runs: int, as_json: bool) -> int:
    """Simulate experiments; the exit code, 1 if there are more false alarms than promised."""
    figures = experiments.figures(queries, runs)
    _show(figures, as_json, *report.experiments_tables(figures))
    return 0 if figures["alarms"] <= SequentialTest().alpha else 1


def crowded(arguments: argparse.Namespace) -> int:
    """Have a simulated crowd ask and click, on flows that run; the exit code, 1 if no result had a token.

    Raises RankstreamError.
    """
    logs.configure(TelemetrySettings(log_level="error", log_format="console"))
    settings = load(arguments.config)
    topics = settings.kafka.topics
    if topics.feedback is None:
        raise ConfigError("kafka.topics.feedback: not set, so no click is heard; name a topic")
    wishes = crowd.read_wishes(arguments.queries, arguments.qrels, arguments.users, arguments.seed)
    clicked = visit(connect(settings.kafka), topics, topics.feedback, wishes, arguments.seed)
    out.print(f"{len(wishes)} queries asked, {len(clicked)} with a click")
    return 0 if clicked else 1


def _show(measured: dict[str, Any], as_json: bool, *tables: Table) -> None:
    if as_json:
        _emit(measured)
    else:
        out.print(*tables)


def _emit(value: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
