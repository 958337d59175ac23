"""The hand-written service on FastStream, as its documentation recommends: a subscriber with a model and workers.

Its workers share a consumer that commits by itself: a crash loses queries that were under way.
"""

import uvloop
from faststream import FastStream
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage
from pydantic import BaseModel

from bench.peers.backends import BackendFailed, Backends
from bench.peers.process import Place, ready, stopping

WORKERS = 128


class Query(BaseModel):
    """A query event."""

    query_id: str
    text: str
    vector: list[float]


async def serve(place: Place) -> None:
    """Answer until told to end."""
    backends = Backends(place)
    broker = KafkaBroker(place.bootstrap, enable_idempotence=True, logger=None)
    app = FastStream(broker, logger=None)

    @broker.subscriber(place.queries, group_id=place.group, auto_offset_reset="earliest", max_workers=WORKERS)
    async def answer(query: Query, message: KafkaMessage) -> None:
        record = message.raw_message
        assert not isinstance(record, tuple)
        key = record.key
        try:
            result = await backends.answer(query.query_id, query.text, query.vector)
        except BackendFailed:
            await broker.publish(message.body, place.dead_letters, key=key)
        else:
            await broker.publish(result, place.results, key=key)

    stop = stopping()
    await app.start()
    endpoint = await ready(place.port)
    await stop.wait()
    await app.stop()
    await backends.aclose()
    await endpoint.cleanup()


if __name__ == "__main__":
    uvloop.run(serve(Place.given()))
