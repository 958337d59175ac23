"""The planted defects: each is planted in a copy of this tree, and a test must notice.

    python -m tests.planted [--only NAME ...] [--near-only] [--json] [--list]

Exit code 1 if a defect is not caught.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.planted.defects import defects
from tests.planted.trial import Outcome, copied


def main() -> int:
    """Try the defects that were asked for; the exit code."""
    listed = defects()
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(listed), default=list(listed), metavar="NAME")
    parser.add_argument("--near-only", action="store_true", help="not all tests where those near the defect pass")
    parser.add_argument("--json", action="store_true", help="a JSON object a line instead of the table")
    parser.add_argument("--list", action="store_true", help="name the defects and plant none")
    arguments = parser.parse_args()
    chosen = [listed[name] for name in arguments.only]
    width = max(len(defect.name) for defect in chosen)
    if arguments.list:
        for defect in chosen:
            print(f"{defect.name:{width}}  {defect.room:32}  {defect.promise}")
        return 0
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        trial = copied(Path(directory))
        for defect in chosen:
            outcome = trial(defect, near_only=arguments.near_only)
            outcomes.append(outcome)
            print(as_json(outcome) if arguments.json else line(outcome, width), flush=True)
    missed = sum(outcome.caught_by is None for outcome in outcomes)
    if not arguments.json:
        print(f"\n{len(outcomes) - missed} of {len(outcomes)} planted defects were caught")
    return 1 if missed else 0


def line(outcome: Outcome, width: int) -> str:
    """The outcome as a row of the table."""
    caught = outcome.caught_by or f"NOT CAUGHT: {outcome.why}"
    return f"{outcome.defect.name:{width}}  {outcome.seconds:5.0f} s  {caught}"


def as_json(outcome: Outcome) -> str:
    """The outcome as one JSON object."""
    defect = outcome.defect
    about = {"name": defect.name, "room": defect.room, "promise": defect.promise}
    found = {"caught_by": outcome.caught_by, "why": outcome.why, "seconds": round(outcome.seconds, 1)}
    return json.dumps({**about, **found})


if __name__ == "__main__":
    sys.exit(main())
