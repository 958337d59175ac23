"""kafka-python behind the delivery protocol; its faults, found by experiment, stay in here.

- A poll whose time-out expires while the group forms can leave the member rebalancing for ever, though another poll
  comes: the topic's metadata is waited for before subscribing, `poll` waits seconds while the group isn't stable, and
  asks to go on with a rebalance that isn't over then.
- A sender with nothing to send sleeps without end, also if a transaction's end is queued: a record that is refused
  while the commit waits for it hangs the commit. So all records are flushed before. They fail with the refused one's
  own error, too: only the first of an error was refused.
- An eager rebalance keeps the position of a partition that comes back: the caller seeks on every assignment.
- The cooperative assignor lets a returning zombie claim its old partitions: only the range assignor is used.
- A partition that is paused while a poll has taken a part of its fetched records is parked, and read again only after
  another partition's fetch happened to come back empty: `poll` always takes everything.
- It keeps no last stable offset: it is noted where a fetch's answer is parsed.
- Listeners run on its I/O thread and must not block.
- A record that can't be tried again any more fails without failing its transaction, which would commit the offsets and
  not the answer: every record's own outcome is looked at before the offsets are sent.
- After a failed commit `abort_transaction` tells the two kinds apart: it succeeds where another try may, and raises
  where it is not known whether it was committed.
- That a connection broke is seen by the requests that it left without an answer: the producer is given a client that
  notes them.
- One header name that isn't UTF-8 would stop its partition for ever: see `records`.
- The default `retry_backoff_ms` makes a transaction 74 ms instead of 10.
- A transactional call can wait for ever after the coordinator's connection broke: the caller watches the time.
- Out of the group, the metadata names no generation, and the broker would take such a commit unfenced: refused here.
- Unstable offsets are logged as errors at every retry, although waiting for them is what `read_committed` means.
"""

from operators.delivery.client import ANY_BATCH, KafkaClient
from operators.delivery.kafka_python.consumer import KafkaPythonConsumer, KafkaPythonReader, quieten
from operators.delivery.kafka_python.producer import KafkaPythonProducer, KafkaPythonTransactions
from operators.delivery.kafka_python.records import read_any_headers
from schemas.settings import KafkaSettings

__all__ = ["KafkaPython"]


class KafkaPython(KafkaClient):
    """Makes consumers, tails and producers by kafka-python."""

    name = "kafka-python"
    transaction_interval = 0.04

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(settings)
        read_any_headers()
        quieten()

    def consumer(self, *, headers_decide: bool = False) -> KafkaPythonConsumer:  # noqa: ARG002  it always tells
        return KafkaPythonConsumer(self._settings)

    def transactional_producer(self, transactional_id: str, max_batch: int) -> KafkaPythonTransactions:
        return KafkaPythonTransactions(self._settings, transactional_id, max_batch)

    def plain_producer(self, max_batch: int = ANY_BATCH) -> KafkaPythonProducer:
        return KafkaPythonProducer(self._settings, max_batch)

    def _reader(self, topic: str, isolation: str, call_timeout: float, *, from_end: bool) -> KafkaPythonReader:
        return KafkaPythonReader(self._settings, topic, isolation, call_timeout, from_end=from_end)
