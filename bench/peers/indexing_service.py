"""The hand-written indexer: one asyncio loop that embeds a batch of documents, writes it, and commits its offsets.

It retries backends with a back-off, and writes dead letters. A crash has documents written twice, which does no harm.
"""

import asyncio
from typing import Any

import orjson
import uvloop
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from bench.peers.backends import BackendFailed, Backends
from bench.peers.process import Place, ready, stopping

BATCH = 64
"""Documents, as many as the flow writes at once."""


async def consume(place: Place, backends: Backends, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer) -> None:
    """Write documents for ever."""
    while True:
        batches = await consumer.getmany(timeout_ms=1000, max_records=BATCH)
        records = [record for some in batches.values() for record in some]
        if not records:
            continue
        documents, refused = [], []
        for record in records:
            document = read(record.value)
            if document is None:
                refused.append(record)
            else:
                documents.append(document)
        try:
            if documents:
                await backends.index(documents)
        except BackendFailed:
            refused = records
        for record in refused:
            await producer.send_and_wait(place.dead_letters, record.value, key=record.key)
        await consumer.commit()


def read(value: bytes) -> dict[str, Any] | None:
    """The document of a message, None if it is none."""
    try:
        document = orjson.loads(value)
        fields = document["id"], document["title"], document["text"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    return document if all(isinstance(field, str) for field in fields) else None


async def serve(place: Place) -> None:
    """Write documents until told to end."""
    stop = stopping()
    backends = Backends(place)
    producer = AIOKafkaProducer(bootstrap_servers=place.bootstrap, enable_idempotence=True)
    consumer = AIOKafkaConsumer(
        place.documents,
        bootstrap_servers=place.bootstrap,
        group_id=place.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    await producer.start()
    await consumer.start()
    endpoint = await ready(place.port)
    consuming = asyncio.create_task(consume(place, backends, consumer, producer))
    stopped = asyncio.create_task(stop.wait())
    # A loop that fails ends the process, which Kubernetes starts again.
    await asyncio.wait([stopped, consuming], return_when=asyncio.FIRST_COMPLETED)
    failed = consuming.done()
    consuming.cancel()
    await consumer.stop()
    await producer.stop()
    await backends.aclose()
    await endpoint.cleanup()
    if failed:
        consuming.result()


if __name__ == "__main__":
    uvloop.run(serve(Place.given()))
