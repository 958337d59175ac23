"""The fault harness: the real flow on a real broker, hurt in every way of the catalogue, and the law checked each time.

    python -m tests.faults [--client NAME ...] [--scenario NAME ...] [--only KIND ...] [--times N] [--json] [--list]

Exit code 1 if a row broke the law or its promise.
"""

import argparse
import itertools
import json
import signal
import sys
from pathlib import Path

from rich.console import Console

from bench.kafka.broker import missing_tools
from tests.faults.catalogue import CATALOGUE, Scenario
from tests.faults.run import CLIENTS, Row, surroundings
from tests.faults.table import line, show


def chosen(names: list[str], kinds: list[str]) -> list[Scenario]:
    """The scenarios of these names and kinds; all where nothing is named."""
    return [
        scenario
        for name, scenario in CATALOGUE.items()
        if (not names or name in names) and (not kinds or scenario.kind in kinds)
    ]


def main() -> int:
    """Run what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--client", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    parser.add_argument("--scenario", nargs="+", choices=list(CATALOGUE), default=[], metavar="NAME")
    parser.add_argument("--only", nargs="+", default=[], choices=sorted({s.kind for s in CATALOGUE.values()}))
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead of the table")
    parser.add_argument("--list", action="store_true", help="name the scenarios and run none")
    parser.add_argument("--times", type=int, default=1, help="each scenario so often")
    parser.add_argument("--seconds", type=float, help="of a scenario without an end of its own, such as the storm")
    parser.add_argument("--transaction-version", type=int, help="of the brokers of kind late; the newest by default")
    parser.add_argument(
        "--logs",
        type=Path,
        help="where the logs of every row are kept; by default, those of broken ones in .cache/faults",
    )
    arguments = parser.parse_args()
    scenarios = chosen(arguments.scenario, arguments.only)
    if arguments.list:
        for scenario in scenarios:
            print(f"{scenario.kind:8} {scenario.name:28} {scenario.promise}")
        return 0
    if missing := missing_tools():
        print(f"a real broker needs {' and '.join(missing)}", file=sys.stderr)
        return 1
    # An end from outside ends the broker and the processes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: list[Row] = []
    with surroundings(arguments.transaction_version) as around:
        for scenario, client, _ in itertools.product(scenarios, arguments.client, range(arguments.times)):
            row = around.run(scenario, client, arguments.logs, arguments.seconds)
            rows.append(row)
            print(json.dumps(row.as_json()) if arguments.json else line(row), flush=True)
            if not arguments.json:
                for breach in row.breaches:
                    print(f"    {breach}", flush=True)
    if not arguments.json:
        print()
        show(rows, Console(width=200 if not sys.stdout.isatty() else None))
    return 0 if all(row.held for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
