"""`python -m bench flow`: CPU a query, latency and saturation of the search flow.

Everything between the topics is real except the backends, whose latency is fixed, so that only the pipeline's own cost
is seen. Exit codes: 0 ok, 1 if it failed or queries were lost, 2 usage.
"""

import argparse
import math
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from bench import report
from bench.figures import BenchError
from bench.profiling import sampling, thread_profiles
from bench.rig import QDRANT_MS, RERANK_MS, rig
from bench.rounds import Plan, compare, warm_up
from bench.subject import RANKSTREAM
from tests.kafka.broker import BrokerError

out = Console()
stderr = Console(stderr=True)


def flow(plan: Plan, as_json: bool) -> int:
    """Measure the flow under every load of the plan; the exit code. Raises BenchError and BrokerError."""
    # Before the rig starts, which is a load too.
    machine = report.machine()
    with rig() as started:
        outcome = compare(started, [RANKSTREAM], plan, stderr.print)[RANKSTREAM.name]
    backends = {"qdrant_ms": QDRANT_MS, "rerank_ms": RERANK_MS}
    figures = {"machine": machine, "backends": backends, "rounds": plan.rounds, **outcome.report()}
    if as_json:
        _emit(figures)
    else:
        out.print(report.figures_table(figures), report.busy_table(figures))
    if lost := outcome.lost():
        stderr.print(f"{lost} queries without an answer", style="red")
    return 1 if lost else 0


def profile(plan: Plan, as_json: bool) -> int:
    """Profile the flow at the plan's highest rate; the exit code. Raises BenchError and BrokerError."""
    machine = report.machine()
    phase = plan.phase(max(plan.rates))
    with rig() as started, started.running(RANKSTREAM) as running, tempfile.TemporaryDirectory() as scratch:
        warm_up(running, plan, stderr.print, RANKSTREAM.name)
        stderr.print(f"{RANKSTREAM.name}: profile at {phase.rate:g} queries/s")
        output = Path(scratch) / "stacks"
        with sampling(running.pid, plan.seconds, output):
            measurement = running.measure(phase)
        threads = [each.report() for each in thread_profiles(output.read_text())]
    if as_json:
        _emit({"machine": machine, "profile": {"rate": phase.rate, "threads": threads}})
    else:
        out.print(*report.profile_tables(threads))
    return 0 if measurement.answered == measurement.sent else 1


def _emit(value: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench")
    command = parser.add_subparsers(required=True, metavar="COMMAND").add_parser("flow", help="measure the search flow")
    command.add_argument("--rates", type=_positive, nargs="+", default=[100, 200, 350], help="queries a second")
    command.add_argument("--seconds", type=_positive, default=20, help="at each rate")
    command.add_argument("--rounds", type=_count, default=3)
    command.add_argument("--burst", type=_none_or_more, default=4000, help="queries at once; 0: no burst")
    command.add_argument("--warm-up", type=_count, default=500, help="queries before each round")
    command.add_argument(
        "--profile", action="store_true", help="where time goes at the highest rate, in place of figures"
    )
    command.add_argument("--json", action="store_true", help="one JSON object")
    return parser.parse_args()


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
    plan = Plan(arguments.rates, arguments.seconds, arguments.rounds, arguments.burst, arguments.warm_up)
    # So that the processes of the rig end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        raise SystemExit((profile if arguments.profile else flow)(plan, arguments.json))
    except (BenchError, BrokerError) as error:
        stderr.print(str(error), style="red", highlight=False, markup=False)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
