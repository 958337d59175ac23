"""The message source: what the consumer loop has read, as the input of a dataflow."""

from datetime import UTC, datetime
from typing import Final

from bytewax.inputs import DynamicSource, StatelessSourcePartition

from operators.delivery.consumer_loop import ConsumerLoop
from operators.query.message import Message
from operators.runtime.wakeup import Wakeup
from schemas.errors import FatalDelivery

_PAST: Final = datetime(2000, 1, 1, tzinfo=UTC)


class _Partition(StatelessSourcePartition[list[Message]]):
    def __init__(self, consumer_loop: ConsumerLoop, wakeup: Wakeup) -> None:
        self._loop = consumer_loop
        self._wakeup = wakeup

    def next_batch(self) -> list[list[Message]]:
        woken = self._wakeup.wait()
        messages = self._loop.take()
        return [messages] if woken or messages else []

    def next_awake(self) -> datetime:
        return _PAST


class MessageSource(DynamicSource[list[Message]]):
    """A source of batches: at each wake-up the messages that were read, perhaps none. A process has one worker."""

    def __init__(self, consumer_loop: ConsumerLoop, wakeup: Wakeup) -> None:
        self._loop = consumer_loop
        self._wakeup = wakeup

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Partition:  # noqa: ARG002
        """The only partition."""
        if worker_count != 1:
            raise FatalDelivery(f"{worker_count} workers in one process: expected 1; start more processes instead")
        return _Partition(self._loop, self._wakeup)
