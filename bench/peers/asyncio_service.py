"""The hand-written service: one asyncio loop, a task a query, at most 128 at a time.

It commits what is answered without a gap, every half second and when a partition is taken from it, drains on SIGTERM,
retries backends with a back-off, and writes dead letters. A crash has queries answered twice.
"""

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any, Protocol

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError

from bench.peers.backends import BackendFailed, Backends
from bench.peers.contiguous import Contiguous
from bench.peers.process import Place, ready, stopping

CONCURRENCY = 128
COMMIT_INTERVAL = 0.5
DRAIN = 30.0


class BadQuery(Exception):
    """A message that is no query."""


class Answers(Protocol):
    """Makes the result event of a query event."""

    async def answer(self, value: bytes) -> dict[str, Any]:
        """Raises BadQuery, and BackendFailed for a query that cannot be answered."""
        ...

    async def aclose(self) -> None:
        """Release what answers are made with."""
        ...


class OverHttp:
    """Answers of backends behind HTTP."""

    def __init__(self, place: Place) -> None:
        self._backends = Backends(place)

    async def answer(self, value: bytes) -> dict[str, Any]:
        return await self._backends.answer(*_read(value))

    async def aclose(self) -> None:
        await self._backends.aclose()


class Service(ConsumerRebalanceListener):
    """Consumes, answers, commits."""

    commit_interval = COMMIT_INTERVAL
    """Seconds."""

    def __init__(self, place: Place, answers: Answers) -> None:
        self._place = place
        self._answers = answers
        self._producer = AIOKafkaProducer(bootstrap_servers=place.bootstrap, enable_idempotence=True)
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=place.bootstrap,
            group_id=place.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._offsets: dict[TopicPartition, Contiguous] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Answer until told to end."""
        stop = stopping()
        await self._producer.start()
        self._consumer.subscribe([self._place.queries], listener=self)
        await self._consumer.start()
        endpoint = await ready(self._place.port)
        background: list[asyncio.Task[object]] = [
            asyncio.create_task(self._consume()),
            asyncio.create_task(self._commit_regularly()),
        ]
        stopped: asyncio.Task[object] = asyncio.create_task(stop.wait())
        # A loop that fails ends the process, which Kubernetes starts again.
        ended, _ = await asyncio.wait([stopped, *background], return_when=asyncio.FIRST_COMPLETED)
        for task in background:
            task.cancel()
        await self._drain()
        await self._commit(list(self._offsets))
        await self._consumer.stop()
        await self._producer.stop()
        await self._answers.aclose()
        await endpoint.cleanup()
        for task in ended - {stopped}:
            task.result()

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        """Finish what is under way, and commit it."""
        await self._drain()
        await self._commit(revoked)
        for partition in revoked:
            self._offsets.pop(partition, None)

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        """Offsets are known when the first record comes."""

    async def _consume(self) -> None:
        while True:
            batches = await self._consumer.getmany(timeout_ms=1000, max_records=CONCURRENCY)
            for partition, records in batches.items():
                offsets = self._offsets.get(partition) or Contiguous(records[0].offset)
                self._offsets[partition] = offsets
                for record in records:
                    await self._room.acquire()
                    task = asyncio.create_task(self._handle(record, offsets))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def _handle(self, record: ConsumerRecord, offsets: Contiguous) -> None:
        try:
            topic = self._place.results
            try:
                value = orjson.dumps(await self._answers.answer(record.value))
            except (BadQuery, BackendFailed):
                topic, value = self._place.dead_letters, record.value
            await self._send(topic, value, record)
            offsets.answered(record.offset)
        finally:
            self._room.release()

    async def _send(self, topic: str, value: bytes, record: ConsumerRecord) -> None:
        await self._producer.send_and_wait(topic, value, key=record.key)

    async def _commit_regularly(self) -> None:
        while True:
            await asyncio.sleep(self.commit_interval)
            await self._commit(list(self._offsets))

    async def _commit(self, partitions: Collection[TopicPartition]) -> None:
        positions = {each: self._offsets[each].position for each in partitions if each in self._offsets}
        if positions:
            # The next commit covers what this one doesn't.
            with contextlib.suppress(KafkaError):
                await self._consumer.commit(positions)

    async def _drain(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN)


def _read(value: bytes) -> tuple[str, str, list[float]]:
    try:
        event = orjson.loads(value)
        query_id, text, vector = event["query_id"], event["text"], event["vector"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise BadQuery(f"{type(error).__name__}: {error}") from error
    if not (isinstance(query_id, str) and isinstance(text, str) and isinstance(vector, list)):
        raise BadQuery("query_id, text and vector are a string, a string and a list")
    return query_id, text, vector


async def serve(place: Place) -> None:
    """Answer until told to end."""
    await Service(place, OverHttp(place)).run()


if __name__ == "__main__":
    uvloop.run(serve(Place.given()))
