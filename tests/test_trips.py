"""The trips of a query through the code: the rooms of one stage, and the stops from an answered query to its record.

`python -m tests.test_trips` prints them. A stop is a function of the product that the query's own thread or the calls'
thread enters; comprehensions and lambdas are none. Telemetry counts: it is not on the way. Pure rooms write what
leaves: they are on the way out, and not on a stage's way.
"""

import sys
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Final

from operators.delivery.output_record import OutputRecord
from operators.delivery.sink import DeliverySink
from operators.query.in_flight import InFlight
from operators.runtime.stage import async_stage
from operators.wire.cloud_event import CloudEvent, Mode
from tests.operators.delivery.deliveries import delivering, read
from tests.operators.delivery.scripted import ScriptedProducer, until
from tests.operators.runtime.flowing import items
from tests.operators.runtime.test_async_stage import looping
from tests.operators.stages.test_embed import by, query
from tests.operators.stages.test_publish import PUBLISHER, found, taking
from tests.operators.stages.test_publish_flow import finaliser
from tests.test_layout import PURE, ROOT, room

MOST_ROOMS: Final = 3
MOST_STOPS: Final = 20
ASIDE: Final = {"operators.telemetry"}
RENDERING: Final = {"Publisher.answer", "View.best"}
"""Functions that make the content of a result: the stops in them are not those of the way out."""

Stop = tuple[str, str]
"""The room of a function, and its name."""


@contextmanager
def tracing(aside: Container[str]) -> Iterator[dict[Stop, None]]:
    """The stops in the order in which they are first entered, by this thread and by those that begin in the block."""
    stops: dict[Stop, None] = {}
    rendering: list[FrameType] = []

    def enter(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "return" and rendering and frame is rendering[0]:
            rendering.clear()
        if event != "call" or rendering or code.co_name.startswith("<") or not code.co_filename.startswith(f"{ROOT}/"):
            return
        module = code.co_filename.removeprefix(f"{ROOT}/").removesuffix(".py").replace("/", ".")
        where = room(module)
        if where is not None and where not in aside:
            stops[where, f"{module.rpartition('.')[2]}.{code.co_qualname}"] = None
        if code.co_qualname in RENDERING:
            rendering.append(frame)

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
    with tracing({*ASIDE, *PURE, "schemas"}) as stops, looping() as calls:
        assert items([[asked]], lambda up: async_stage("embed", up, stage, calls)) == [asked]
    return list(stops)


def answered() -> InFlight:
    """A query with candidates that came as a CloudEvent, with a header that returns."""
    asked = found(0)
    asked.message = replace(asked.message, headers=(("correlation-id", b"1"),))
    asked.envelope = CloudEvent(Mode.BINARY, "1", "/source", None)
    return asked


def trip_to_the_sink(end: Callable[[], list[OutputRecord]]) -> list[Stop]:
    """The records of a query by `end`, and the sink, to the queue from which the delivery's thread takes records."""
    ledger, _ = read(1)
    with delivering(ScriptedProducer(), ledger) as (delivery, _):
        sink = DeliverySink(delivery).build("results", 0, 1)
        with tracing(ASIDE) as stops:
            sink.write_batch([end()])
        until(lambda: ledger.in_flight == 0)
    return list(stops)


def trip_of_an_answer() -> list[Stop]:
    """An answered query through `publish` and the sink."""
    to, asked = finaliser(), answered()
    return trip_to_the_sink(lambda: to(asked))


def trip_of_a_shortened_answer() -> list[Stop]:
    """A plain answer that its topic doesn't take whole, from where its event is written."""
    asked = found(0)
    event = PUBLISHER.own(asked, PUBLISHER.answer(asked))
    (whole,) = PUBLISHER.way_out.answer(asked, event, lambda _: None)
    small = taking(results=whole.size - 1).way_out
    return trip_to_the_sink(lambda: small.answer(asked, event, lambda _: None))


def test_a_stage_is_in_few_rooms() -> None:
    """A query on its way through an asynchronous stage enters the code of at most three rooms."""
    rooms = {where for where, _ in trip_of_a_stage()}
    assert {"operators.runtime", "operators.stages"} <= rooms
    assert len(rooms) <= MOST_ROOMS, rooms


def test_the_way_out_is_short() -> None:
    """An answered query becomes its record, and reaches the delivery, in at most twenty stops, pure rooms included."""
    stops = trip_of_an_answer()
    reached = {"way_out.WayOut.answer", "cloud_event.result_message", "sink.Delivery.enqueue"}
    assert reached <= {stop for _, stop in stops}
    assert len(stops) <= MOST_STOPS, stops


def test_a_shortened_answer_takes_no_longer() -> None:
    """One that its topic doesn't take whole reaches the delivery in as many stops from where its event is written."""
    stops = trip_of_a_shortened_answer()
    assert {"shortening.shorten", "sink.Delivery.enqueue"} <= {stop for _, stop in stops}
    assert len(stops) <= MOST_STOPS, stops


def _print(name: str, trip: Callable[[], list[Stop]]) -> None:
    stops = trip()
    print(f"{name}: {len(stops)} stops, {len({where for where, _ in stops})} rooms")
    for where, stop in stops:
        print(f"  {where:20} {stop}")


if __name__ == "__main__":
    _print("a stage", trip_of_a_stage)
    _print("an answer", trip_of_an_answer)
    _print("a shortened answer", trip_of_a_shortened_answer)
