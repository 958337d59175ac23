"""`python -m bench flow`: CPU a query, latency and saturation of the search flow beside services that do its work by
hand. `python -m bench micro`: has a part of it become slower? `python -m bench soak`: does it grow? `python -m bench
rank`: what ranking one query costs, by recipe. `python -m bench rerank`: what batching across queries is worth, and
with `--faults` what a failing reranker costs. `python -m bench cache`: what the exact cache is worth. `python -m bench
paraphrases`: the questions that the semantic cache takes for one, rightly and wrongly. `python -m bench recall`: what
the vector leg finds of the nearest documents, by `qdrant.search.hnsw_ef`.

In the flow everything between the topics is real except the backends, whose latency is fixed, so that only the
pipeline's own cost is seen. Exit codes: 0 ok, 1 if it failed, queries were lost or, in a soak,
answered twice, something grew, or the semantic cache would answer another question; 2 usage.
"""

import argparse
import math
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from bench import caching, comparison, micro, paraphrases, ranking, recall, report, rerank_faults, reranking
from bench.figures import BenchError
from bench.kafka.broker import BrokerError
from bench.plot import plot
from bench.profiling import sampling, thread_profiles
from bench.rig import QDRANT_MS, RERANK_MS, rig
from bench.rounds import Plan, compare, warm_up
from bench.soak import Soak, soak, sound
from bench.subject import ASYNCIO, PEERS, RANKSTREAM
from bench.variants import VARIANTS

COMPARED = PEERS | RANKSTREAM
SUBJECTS = COMPARED | VARIANTS
BACKENDS = {"qdrant_ms": QDRANT_MS, "rerank_ms": RERANK_MS}
QUICK = Plan(rates=[50.0], seconds=3.0, rounds=1, burst=200, warm_up=50)

out = Console()
stderr = Console(stderr=True)


def flow(plan: Plan, names: Sequence[str], as_json: bool, picture: Path | None) -> int:
    """Measure each subject under every load; the exit code. Raises BenchError and BrokerError."""
    # Before the rig starts, which is a load too.
    machine = report.machine()
    with rig() as started:
        outcomes = compare(started, [SUBJECTS[name] for name in names], plan, stderr.print)
    subjects = {name: outcome.report() for name, outcome in outcomes.items()}
    ratios = comparison.ratios(subjects)
    figures = {
        "machine": machine,
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


def soaked(plan: Soak, client: str, as_json: bool) -> int:
    """Soak the flow on a client; the exit code. Raises BenchError and BrokerError."""
    machine = report.machine()
    with rig() as started:
        figures = soak(started, RANKSTREAM[client], plan, stderr)
    if as_json:
        _emit({"machine": machine, "backends": BACKENDS, "client": client, **figures})
    else:
        out.print(report.windows_table(figures), report.held_table(figures))
        out.print(f"{figures['sent']} sent, {figures['lost']} lost, {figures['twice']} twice: {figures['statuses']}")
    if not (figures["flat"] or figures["steady"]):
        stderr.print(
            "something grew, but the load was not steady: measure again with nothing else running", style="red"
        )
    return 0 if sound(figures) else 1


def profile(plan: Plan, name: str, as_json: bool) -> int:
    """Profile a subject at the plan's highest rate; the exit code. Raises BenchError and BrokerError."""
    machine = report.machine()
    phase = plan.phase(max(plan.rates))
    with rig() as started, started.running(SUBJECTS[name]) as running, tempfile.TemporaryDirectory() as scratch:
        warm_up(running, plan, stderr.print, name)
        stderr.print(f"{name}: profile at {phase.rate:g} queries/s")
        output = Path(scratch) / "stacks"
        with sampling(running.pid, plan.seconds, output):
            measurement = running.measure(phase)
        threads = [each.report() for each in thread_profiles(output.read_text())]
    if as_json:
        _emit({"machine": machine, "profile": {"rate": phase.rate, "threads": threads}})
    else:
        out.print(*report.profile_tables(threads))
    return 0 if measurement.answered == measurement.sent else 1


def ranked(rounds: int, as_json: bool) -> int:
    """Measure every recipe; the exit code."""
    measured = {"machine": report.machine(), **ranking.figures(rounds)}
    _show(measured, as_json, report.ranking_table(measured))
    return 0


def reranked(rounds: int, as_json: bool) -> int:
    """Measure the rerank operator; the exit code."""
    measured = {"machine": report.machine(), **reranking.figures(rounds)}
    _show(measured, as_json, report.reranking_table(measured))
    return 0


def failing(queries: int, as_json: bool) -> int:
    """What failures of the reranker cost; the exit code, 1 if one cost more calls than promised."""
    measured = {"machine": report.machine(), **rerank_faults.figures(queries)}
    _show(measured, as_json, report.faults_table(measured))
    return 0 if all(row["kept"] for row in measured["rows"]) else 1


def cached(plan: caching.Rounds, client: str, as_json: bool) -> int:
    """Measure the exact cache; the exit code, 1 if it keeps less than promised. Raises BenchError and BrokerError."""
    machine = report.machine()
    with rig() as started:
        figures = caching.measure(started, client, plan, stderr.print)
    _show({"machine": machine, "backends": BACKENDS, **figures}, as_json, report.caches_table(figures))
    return 0 if caching.kept(figures) else 1


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
    _show({"machine": report.machine(), **measured}, arguments.json, report.recall_table(measured))
    return 0


def parts(rounds: int, update: bool, as_json: bool) -> int:
    """Measure single parts of the flow; the exit code, 1 if one is slower than the baseline allows."""
    measured = micro.figures(rounds)
    if update:
        micro.update(measured)
    known = micro.baseline()
    slower = micro.slower(measured, known)
    told = {"machine": report.machine(), **measured, "baseline": known, "slower": slower}
    _show(told, as_json, report.parts_table(measured, known))
    for name, times in slower.items():
        stderr.print(f"{name}: {times} times its baseline", style="red")
    return 1 if slower else 0


def _show(measured: dict[str, Any], as_json: bool, *tables: Table) -> None:
    if as_json:
        _emit(measured)
    else:
        out.print(*tables)


def _emit(value: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    command = commands.add_parser("flow", help="measure the search flow")
    command.set_defaults(run=_flow)
    command.add_argument("--rates", type=_positive, nargs="+", default=[100, 350], help="queries a second")
    command.add_argument("--seconds", type=_positive, default=20, help="at each rate")
    command.add_argument("--rounds", type=_count, default=3)
    command.add_argument("--burst", type=_none_or_more, default=4000, help="queries at once; 0: no burst")
    command.add_argument("--warm-up", type=_count, default=500, help="queries before each round")
    command.add_argument(
        "--subject", choices=SUBJECTS, nargs="+", default=list(COMPARED), help="what is measured, in interleaved rounds"
    )
    command.add_argument("--quick", action="store_true", help="one short round: it says whether the bench works")
    command.add_argument("--plot", type=Path, metavar="PNG", help="a picture of the figures")
    command.add_argument(
        "--profile",
        action="store_true",
        help="where time goes at the highest rate, in the first subject, in place of figures",
    )
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("soak", help="load the search flow for long and look for growth")
    command.set_defaults(run=_soak)
    command.add_argument("--queries", type=_count, default=100_000)
    command.add_argument("--rate", type=_positive, default=200.0, help="queries a second; below saturation")
    command.add_argument("--client", choices=RANKSTREAM, default="kafka-python")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("rank", help="measure ranking, by recipe and size of the pool")
    command.set_defaults(run=lambda arguments: ranked(arguments.rounds, arguments.json))
    command.add_argument("--rounds", type=_count, default=15)
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("rerank", help="measure batching across queries")
    command.set_defaults(run=_rerank)
    command.add_argument("--rounds", type=_count, default=5)
    command.add_argument("--faults", action="store_true", help="what a failing reranker costs, in place of that")
    command.add_argument("--queries", type=_count, default=600, help="of each fault")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("micro", help="measure single parts of the flow against their baseline")
    command.set_defaults(run=lambda arguments: parts(arguments.rounds, arguments.update, arguments.json))
    command.add_argument("--rounds", type=_count, default=7)
    command.add_argument("--update", action="store_true", help="make what is measured the baseline")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("cache", help="measure the exact cache, on queries by Zipf's law")
    command.set_defaults(run=_cache)
    command.add_argument("--queries", type=_count, default=20_000, help="of 10,000 texts")
    command.add_argument("--rounds", type=_count, default=5, help="that the queries are spread over")
    command.add_argument("--rate", type=_positive, help="queries a second, in place of a round's at once")
    command.add_argument("--client", choices=RANKSTREAM, default="kafka-python")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("paraphrases", help="compare labelled pairs of questions as the semantic cache does")
    command.set_defaults(run=lambda arguments: compared(arguments.judged, arguments.json))
    command.add_argument("--judged", type=Path, help="a directory with queries.jsonl and qrels.txt, in place of them")
    command.add_argument("--json", action="store_true", help="one JSON object")
    command = commands.add_parser("recall", help="measure the recall of the vector leg by hnsw_ef")
    command.set_defaults(run=recalled)
    command.add_argument("--points", type=_count, default=recall.POINTS)
    command.add_argument("--namespaces", type=_count, default=1, help="that the points are in; one is searched")
    command.add_argument("--queries", type=_count, default=300)
    command.add_argument("--rounds", type=_count, default=5)
    command.add_argument("--cache", type=Path, default=Path("~/.cache/rankstream").expanduser(), help="of the model")
    command.add_argument("--index", type=Path, help="directory for the index. Default: a temporary one")
    command.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args()


def _flow(arguments: argparse.Namespace) -> int:
    plan = Plan(arguments.rates, arguments.seconds, arguments.rounds, arguments.burst, arguments.warm_up)
    if arguments.quick:
        plan = QUICK
    if arguments.profile:
        return profile(plan, arguments.subject[0], arguments.json)
    return flow(plan, arguments.subject, arguments.json, arguments.plot)


def _soak(arguments: argparse.Namespace) -> int:
    return soaked(Soak(arguments.queries, arguments.rate), arguments.client, arguments.json)


def _rerank(arguments: argparse.Namespace) -> int:
    if arguments.faults:
        return failing(arguments.queries, arguments.json)
    return reranked(arguments.rounds, arguments.json)


def _cache(arguments: argparse.Namespace) -> int:
    plan = caching.Rounds(arguments.queries, arguments.rate, arguments.rounds)
    return cached(plan, arguments.client, arguments.json)


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError
    return number


def _count(text: str) -> int:
    return int(_positive(str(int(text))))


def _none_or_more(text: str) -> int:
    return _count(text) if int(text) else 0


def main() -> None:
    """Run the command line."""
    arguments = _arguments()
    # So that the processes of the rig end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        raise SystemExit(arguments.run(arguments))
    except (BenchError, BrokerError) as error:
        stderr.print(str(error), style="red", highlight=False, markup=False)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
