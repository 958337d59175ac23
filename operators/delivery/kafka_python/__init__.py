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

from operators.delivery.kafka_python.connection import EMBEDDED, KAFKA, Dialect
from operators.delivery.kafka_python.kafka_client import KafkaPython

__all__ = ["EMBEDDED", "KAFKA", "Dialect", "KafkaPython"]
