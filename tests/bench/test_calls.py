"""The Python calls that a query takes: growth of the flow's work is seen when it happens."""

import sys
from pathlib import Path

import pytest

from bench.calls import LIBRARIES, by_room, measure, shorten
from bench.rig import rig

ROOT = Path(__file__).parent.parent.parent
CALLS = {(3, 11): 760, (3, 12): 664}
"""Calls of the product's functions a query of a burst, by Python's version: 3.12 calls no comprehension. A mend that
raises them says why; one that lowers them sets them."""


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
    """To one part in a hundred: how the queries of a burst fall into batches changes it by less."""
    with rig() as running:
        rooms = by_room(measure(running, tmp_path)["burst"])
    calls = sum(count for room, count in rooms.items() if room != LIBRARIES)
    assert calls == pytest.approx(CALLS[sys.version_info[:2]], rel=0.01), rooms
