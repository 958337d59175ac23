"""The hand-written service with transactions: results and the offsets that they answer are committed together.

An answer waits until all before it in its partition are there, so that a commit covers what it sends. Transactions
begin 10 ms apart at least, as the flow's do. aiokafka commits offsets by the group's name alone: a process that lost a
partition without noticing is not kept from committing for it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection

import uvloop
from aiokafka import AIOKafkaProducer, ConsumerRecord, TopicPartition
from typing_extensions import override

from bench.peers.asyncio_service import Answers, OverHttp, Service
from bench.peers.process import Place

INTERVAL = 0.01


class TransactionalService(Service):
    """Consumes, answers, commits results with their offsets."""

    commit_interval = INTERVAL

    def __init__(self, place: Place, answers: Answers) -> None:
        super().__init__(place, answers)
        self._producer = AIOKafkaProducer(
            bootstrap_servers=place.bootstrap, transactional_id=f"{place.group}-{place.port}"
        )
        self._unsent: defaultdict[TopicPartition, dict[int, tuple[str, bytes, bytes]]] = defaultdict(dict)
        self._committing = asyncio.Lock()

    @override
    async def _send(self, topic: str, value: bytes, record: ConsumerRecord) -> None:
        partition = TopicPartition(record.topic, record.partition)
        self._unsent[partition][record.offset] = topic, value, record.key

    @override
    async def _commit(self, partitions: Collection[TopicPartition]) -> None:
        async with self._committing:
            positions = {each: self._offsets[each].position for each in partitions if each in self._offsets}
            ready = [
                self._unsent[partition].pop(offset)
                for partition, position in positions.items()
                for offset in sorted(self._unsent[partition])
                if offset < position
            ]
            if not ready:
                return
            async with self._producer.transaction():
                for topic, value, key in ready:
                    await self._producer.send(topic, value, key=key)
                await self._producer.send_offsets_to_transaction(positions, self._place.group)


async def serve(place: Place) -> None:
    """Answer until told to end."""
    await TransactionalService(place, OverHttp(place)).run()


if __name__ == "__main__":
    uvloop.run(serve(Place.given()))
