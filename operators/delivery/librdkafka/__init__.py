"""librdkafka, through confluent-kafka, behind the delivery protocol; what it does in its own way stays in here.

- Its assign callback is answered with an empty assignment: only what the caller starts, and from where, is read.
- A pause drops what was fetched ahead: `poll` takes everything, and the caller keeps what is beyond its credit.
- A consumer serves one thread at a time, and one that polls keeps others out: no other thread calls it. The membership
  is noted when partitions are assigned, and forgotten when they go; commits of other threads wait for the next poll.
- Out of the group there is no membership to commit under: the broker would take such offsets unfenced.
- An error says itself whether to abort, to call again or to end. A commit that ran out of time is called again: an
  abort is no longer allowed then. Offsets that weren't taken aren't sent again: the second call may never return.
- That a connection broke is said in its log alone: at debug level every time, else once in half a minute. It is read
  there.
- A producer that is initialised before it has a connection looks for its coordinator half a second later.
- A topic that is unknown is waited for until the transaction's time-out; the transaction can be aborted then.
"""

from operators.delivery.librdkafka.kafka_client import Librdkafka

__all__ = ["Librdkafka"]
