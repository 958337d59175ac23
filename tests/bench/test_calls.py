"""The Python calls that a query takes: growth of the flow's work is seen when it happens."""

import sys
from pathlib import Path

import pytest

from bench.calls import LIBRARIES, by_room, measure, shorten
from bench.figures import Phase
from bench.rig import rig

ROOT = Path(__file__).parent.parent.parent
PACE = ("operators.clients", "operators.delivery", "operators.runtime", "operators.stages", "operators.telemetry")
"""Rooms that work by batches, too: a machine that others use fills these less, and then a query takes more calls."""

OWN = {(3, 11): 359, (3, 12): 322}
"""Calls a query of a burst in all other rooms, by Python's version: 3.12 calls no comprehension. A mend that raises
them says why; one that lowers them sets them."""

BY_PACE = {(3, 11): 378, (3, 12): 337}
"""The calls in the rooms of PACE, on a machine that does nothing else."""


def test_functions_are_counted_in_their_rooms() -> None:
    """A room is a package below `operators` and `flows`, and in schemas one of its own or the room itself."""
    functions = {
        f"{ROOT}/operators/query/plan.py:Planner.plan": 2.0,
        f"{ROOT}/operators/query/legs.py:legs": 1.0,
        f"{ROOT}/schemas/event.py:parse": 1.5,
        "/usr/lib/python3.11/json/decoder.py:decode": 4.0,
        "<string>:__init__": 3.0,
    }
    assert by_room(functions) == {"operators.query": 3.0, "schemas": 1.5, LIBRARIES: 7.0}
    assert shorten(f"{ROOT}/schemas/event.py:parse") == "schemas/event.py:parse"


@pytest.mark.usefixtures("broker_tools", "machine")
def test_a_query_takes_as_many_calls_as_it_did(tmp_path: Path) -> None:
    """To one part in a hundred, and to a quarter where batches count."""
    with rig() as running:
        rooms = by_room(measure(running, tmp_path, {"burst": Phase(1000)})["burst"])
    own = sum(count for room, count in rooms.items() if room not in (LIBRARIES, *PACE))
    by_pace = sum(rooms[room] for room in PACE)
    version = sys.version_info[:2]
    assert own == pytest.approx(OWN[version], rel=0.01), rooms
    assert by_pace == pytest.approx(BY_PACE[version], rel=0.25), rooms
