"""Stages of a dataflow: `sync_stage` applies a function to each item, `async_stage` asks a backend about each item, and
`last_stage` ends each.

A batch is the list of items that go through the flow together. It may be empty: the source sends one when calls have
finished, so that each stage can pass on its finished items. An item that is answered, or rejected, passes by the stages
behind: the last one writes its record.

All batches have one key: a worker has one state for each stateful operator, and no batch is divided. The source of a
flow gives it to them, and the last step takes it off.
"""

import traceback
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import structlog
from bytewax import operators as op
from bytewax.dataflow import Stream, operator
from bytewax.operators import KeyedStream, StatefulBatchLogic

from operators.runtime.dispatcher import AsyncStage, BatchKey, Dispatcher
from operators.runtime.event_loop import EventLoopThread
from schemas.errors import DeadLetterClass, InputError

log = structlog.stdlib.get_logger(__name__)

Record = TypeVar("Record")

KEY: Final = "0"
"""The key of every batch."""

Batch = list[Any]
"""Items, rejected ones among them."""

Batches = KeyedStream[Batch]


class Rejection(Protocol):
    """A refused message. No stage but the last has anything to do for it."""

    @property
    def log_fields(self) -> Mapping[str, str | int]:
        """The message's place in Kafka, and the id of its trace, for logs."""


class Rejectable(Protocol):
    """A message, or the query or document parsed from it."""

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejection:
        """The refusal of the message by a stage of this name."""


def split(items: Iterable[Any]) -> tuple[Batch, Batch]:
    """The items that a stage has something to do for, and those that pass by."""
    live: Batch = []
    passing: Batch = []
    for item in items:
        if item.answered:
            passing.append(item)
        else:
            live.append(item)
    return live, passing


def run_step(name: str, items: Iterable[Any], step: Callable[..., Any], *others: Iterable[Any]) -> Batch:
    """Apply a step to each item, and to its part of `others` as `map` does; an item for which it raises is rejected
    alone. None: the item waits elsewhere.

    An InputError says what is wrong with the message. Any other exception is a defect: the message becomes a dead
    letter of class `internal`, so that it doesn't block the messages behind it, and the traceback is logged.
    """
    out: Batch = []
    for given in zip(items, *others, strict=True):
        try:
            done = step(*given)
        except InputError as error:
            out.append(given[0].reject(name, error.kind, str(error), error.field))
        except Exception as error:  # noqa: BLE001  reported and accounted for
            out.append(defect(name, given[0], error))
        else:
            if done is not None:
                out.append(done)
    return out


def defect(name: str, source: Rejectable, error: Exception) -> Any:
    """Log an error that is no InputError, and reject the message in which it occurred."""
    # Not the error's own message: it may quote the query.
    where, kind = "".join(traceback.format_tb(error.__traceback__)), type(error).__name__
    rejected = source.reject(name, DeadLetterClass.INTERNAL, kind)
    log.error("stage raised an unexpected error", stage=name, error=kind, **rejected.log_fields, where=where)
    return rejected


@operator
def sync_stage(step_id: str, up: Batches, step: Callable[[Any], Any] | None, name: str | None = None) -> Batches:
    """Apply `step` to each item that isn't answered; dead letters name the stage `name`, by default its step id.
    Without a step nothing is built.

    >>> from types import SimpleNamespace as Item
    >>> from bytewax import testing
    >>> from bytewax.dataflow import Dataflow
    >>> flow, left = Dataflow("greetings"), []
    >>> source = testing.TestingSource([(KEY, [Item(name="Ada", answered=False), Item(name="Alan", answered=True)])])
    >>> batches = op.input("names", flow, source)
    >>> greeted = sync_stage("greet", batches, lambda item: f"Hello {item.name}")
    >>> _ = op.output("out", op.key_rm("plain", greeted), testing.TestingSink(left))
    >>> testing.run_main(flow)
    >>> left
    [[namespace(name='Alan', answered=True), 'Hello Ada']]
    """
    if step is None:
        return up
    stage = name if name is not None else step_id.rpartition(".")[2]

    def process_batch(batches: list[tuple[str, Batch]]) -> list[tuple[str, Batch]]:
        if len(batches) == 1 and not batches[0][1]:
            return batches
        live, out = split(chain.from_iterable([items for _, items in batches]))
        out += run_step(stage, live, step)
        return [(KEY, out)]

    return op.flat_map_batch("step", up, process_batch)


@operator
def last_stage(step_id: str, up: Batches, end: Callable[[Any], Iterable[Record]]) -> Stream[list[Record]]:
    """End every item, answered or rejected: the records that `end` makes of it leave the flow, a batch's together."""

    def process_batch(batches: list[tuple[str, Batch]]) -> list[list[Record]]:
        records = [record for _, items in batches for item in items for record in end(item)]
        return [records] if records else []

    return op.flat_map_batch("records", up, process_batch)


@operator
def async_stage(step_id: str, up: Batches, stage: AsyncStage[Any, Any] | None, calls: EventLoopThread) -> Batches:
    """Ask a backend about each item that isn't answered; order is not kept. Without a stage nothing is built.
    An item whose call has finished leaves with the next batch. So the source sends one, perhaps empty, whenever it is
    woken, and ends only when no call is under way any more.
    """
    if stage is None:
        return up
    return op.stateful_batch("calls", up, lambda _: _AsyncLogic(stage, calls))


class _AsyncLogic(StatefulBatchLogic[Batch, Batch, None]):
    """The state of a stage on one worker: the items whose calls are under way or wait for one."""

    def __init__(self, stage: AsyncStage[Any, Any], calls: EventLoopThread) -> None:
        self._stage = stage
        self._step = stage.step
        self._dispatcher = Dispatcher(stage, calls)
        self._asked: list[tuple[Any, BatchKey, Any]] = []

    def on_batch(self, batches: list[Batch]) -> tuple[Iterable[Batch], bool]:
        stage = self._stage
        out: Batch = []
        # Most turns of an idle engine bring an empty batch.
        if any(batches):
            items = chain.from_iterable(batches)
            taken, out = (list(filter(stage.takes, items)), []) if stage.branch else split(items)
            out += run_step(self._step, taken, self._ask)
            if self._asked:
                self._dispatcher.submit(self._asked)
                self._asked = []
        if self._dispatcher.finished:
            out += self._finish()
        return [out] if out or not stage.branch else [], self.RETAIN

    def on_eof(self) -> tuple[Iterable[Batch], bool]:
        """Drain the finished items: the source ends when no call is under way, or when the worker must not wait."""
        out = self._finish()
        return [out] if out else [], self.RETAIN

    def snapshot(self) -> None:
        """Keep nothing: the checkpoint is in Kafka, the group's offsets and their metadata.

        These name each message that is answered. After a crash the next owner of a partition reads the others again.
        """

    def _ask(self, item: Any) -> Any:
        asked = self._stage.request(item)
        if asked is None:
            return self._stage.on_unasked(item)
        self._asked.append((item, *asked))
        return None

    def _finish(self) -> Batch:
        finished = self._dispatcher.drain()
        items, outcomes = zip(*finished, strict=True) if finished else ((), ())
        return run_step(self._step, items, self._stage.on_result, outcomes)
