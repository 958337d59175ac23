"""The trips of a query through the code: the rooms of one stage, and the stops from an answered query to its record.

`python -m tests.test_trips` prints both. A stop is a function of the product that the query's own thread or the calls'
thread enters; comprehensions and lambdas are none. Pure rooms compute, and telemetry counts: they are not on the way.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from operators.delivery.sink import DeliverySink
from operators.runtime.stage import async_stage
from tests.operators.delivery.deliveries import delivering, read
from tests.operators.delivery.scripted import ScriptedProducer, until
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.stages.test_embed import by, query
from tests.operators.stages.test_publish import found
from tests.operators.stages.test_publish_flow import finaliser
from tests.test_layout import PURE, ROOT, room

MOST_ROOMS: Final = 3
MOST_STOPS: Final = 20
ASIDE: Final = {*PURE, "schemas", "operators.telemetry"}

Stop = tuple[str, str]
"""The room of a function, and its name."""


@contextmanager
def tracing() -> Iterator[dict[Stop, None]]:
    """The stops in the order in which they are first entered, by this thread and by those that begin in the block."""
    stops: dict[Stop, None] = {}

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not code.co_filename.startswith(f"{ROOT}/"):
            return
        module = code.co_filename.removeprefix(f"{ROOT}/").removesuffix(".py").replace("/", ".")
        where = room(module)
        if where is not None and where not in ASIDE:
            stops[where, f"{module.rpartition('.')[2]}.{code.co_qualname}"] = None

    threading.setprofile(enter)
    sys.setprofile(enter)
    try:
        yield stops
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def trip_of_a_stage() -> list[Stop]:
    """A query through `embed`, from its batch to the batch behind, the call to a stub of the embedder included."""
    asked, stage = query(), by()
    with tracing() as stops, looping() as calls:
        assert items([[asked]], lambda up: async_stage("embed", up, stage, calls)) == [asked]
    return list(stops)


def trip_of_an_answer() -> list[Stop]:
    """An answered query through `publish` and the sink, to the queue from which the delivery's thread takes records."""
    to, answered = finaliser(), found(0)
    ledger, _ = read(1)
    with delivering(ScriptedProducer(), ledger) as (delivery, _):
        sink = DeliverySink(delivery).build("results", 0, 1)
        with tracing() as stops:
            sink.write_batch([to(answered)])
        until(lambda: ledger.in_flight == 0)
    return list(stops)


def test_a_stage_is_in_few_rooms() -> None:
    """A query on its way through an asynchronous stage enters the code of at most three rooms."""
    rooms = {where for where, _ in trip_of_a_stage()}
    assert {"operators.runtime", "operators.stages"} <= rooms
    assert len(rooms) <= MOST_ROOMS, rooms


def test_the_way_out_is_short() -> None:
    """An answered query becomes its record, and reaches the delivery, in at most twenty stops."""
    stops = trip_of_an_answer()
    assert {"way_out.WayOut.answer", "sink.Delivery.put"} <= {stop for _, stop in stops}
    assert len(stops) <= MOST_STOPS, stops


def _print(name: str, trip: Callable[[], list[Stop]]) -> None:
    stops = trip()
    print(f"{name}: {len(stops)} stops, {len({where for where, _ in stops})} rooms")
    for where, stop in stops:
        print(f"  {where:20} {stop}")


if __name__ == "__main__":
    _print("a stage", trip_of_a_stage)
    _print("an answer", trip_of_an_answer)
