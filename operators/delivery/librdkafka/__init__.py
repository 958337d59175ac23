"""librdkafka, through confluent-kafka, behind the delivery protocol. Its peculiarities stay in here.

- Its assign callback is answered with an empty assignment: only what the caller starts, and from where, is read.
- For a moment after an assignment, the position from before it is reported: `start` waits until it no longer is.
- The last stable offset is told in its statistics alone.
- A pause drops what was fetched ahead: `poll` takes everything, and the caller keeps what is beyond its credit.
- A consumer serves one thread at a time, and one that polls keeps others out: no other thread calls it. The membership
  is noted when partitions are assigned, and forgotten when they go; commits of other threads wait for the next poll.
- Out of the group there is no membership to commit under: the broker would take such offsets unfenced.
- A commit raises only an error of all its partitions: each partition's own error is looked at.
- An error says itself whether to abort, to call again or to end. A commit that ran out of time is called again: an
  abort is no longer allowed then. Offsets that weren't taken aren't sent again: the second call may never return.
- That a connection broke is said in its log alone: at debug level every time, else once in half a minute. It is read
  there.
- Of a record with more than 100,000 headers it gives none, and no error. Where headers decide, a record without any
  is read a second time, by kafka-python.
- A producer that is initialised before it has a connection looks for its coordinator half a second later.
- A topic that is unknown is waited for until the transaction's time-out; the transaction can be aborted then.
"""

from operators.delivery.client import ANY_BATCH, KafkaClient
from operators.delivery.kafka_python.records import SecondReader
from operators.delivery.librdkafka.connection import check_options, quieten
from operators.delivery.librdkafka.consumer import LibrdkafkaConsumer, LibrdkafkaReader
from operators.delivery.librdkafka.producer import LibrdkafkaProducer, LibrdkafkaTransactions
from schemas.settings import KafkaSettings

__all__ = ["Librdkafka"]


class Librdkafka(KafkaClient):
    """Makes consumers, tails and producers by librdkafka."""

    name = "librdkafka"
    transaction_interval = 0.01

    def __init__(self, settings: KafkaSettings) -> None:
        """Raises ConfigError for an option that librdkafka doesn't have."""
        super().__init__(settings)
        check_options(settings)
        quieten()

    def consumer(self, *, headers_decide: bool = False) -> LibrdkafkaConsumer:
        return LibrdkafkaConsumer(self._settings, SecondReader(self._settings) if headers_decide else None)

    def transactional_producer(self, transactional_id: str, max_batch: int) -> LibrdkafkaTransactions:
        return LibrdkafkaTransactions(self._settings, transactional_id, max_batch)

    def plain_producer(self, max_batch: int = ANY_BATCH) -> LibrdkafkaProducer:
        return LibrdkafkaProducer(self._settings, max_batch)

    def _reader(self, topic: str, isolation: str, call_timeout: float, *, from_end: bool) -> LibrdkafkaReader:
        return LibrdkafkaReader(self._settings, topic, isolation, call_timeout, from_end=from_end)
