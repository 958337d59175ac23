"""The load: queries at their time, whatever has become of those before, and poison among them.

It survives outages of the broker: what can't be sent waits in the producer. What was asked is what the topic holds, not
what was sent.
"""

import argparse
import itertools
import json
import re
import threading
import time
from collections.abc import Sequence
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.integration.poison import POISON

POISON_EVERY: Final = 50
RATE: Final = 100.0

_FLUSH: Final = 60.0
_QUERY: Final = re.compile(rb'\{"query_id": "(q\d+)", "text": "[a-z ]+ \d+"(?:, "timeout_ms": \d+)?\}')
_WORDS: Final = ("blue", "lantern", "harbor", "copper", "ledger", "winter", "bridge", "orchard")


def query(number: int, timeout_ms: int | None = None) -> tuple[bytes, bytes]:
    """Key and value of the query `number`; no two are alike."""
    text = " ".join(_WORDS[number // step % len(_WORDS)] for step in (1, 8, 64))
    event: dict[str, object] = {"query_id": f"q{number}", "text": f"{text} {number}"}
    if timeout_ms is not None:
        event["timeout_ms"] = timeout_ms
    return f"k{number}".encode(), json.dumps(event).encode()


def query_id_of(value: bytes | None) -> str | None:
    """The id of a query of ours; None if the value is something else."""
    matched = _QUERY.fullmatch(value or b"")
    return matched[1].decode() if matched else None


class Load:
    """An open loop on a thread of its own, and single messages from the caller's; queries are numbered from `first`."""

    def __init__(self, bootstrap: str, topic: str, first: int = 0) -> None:
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                # Not idempotent: a crash of the broker can end such a producer. What is sent twice is asked twice.
                "acks": "all",
                "message.timeout.ms": 120_000,
                "linger.ms": 2,
                "queue.buffering.max.kbytes": 1 << 18,
                "message.max.bytes": 1 << 24,
                "topic.metadata.refresh.interval.ms": 1000,
                "log_level": 0,
            }
        )
        self._numbers = itertools.count(first)
        self._poison = itertools.cycle(POISON)
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.stretches: list[tuple[float, float]] = []
        """From when to when load was on, in Unix seconds."""

    def start(self, rate: float = RATE, *, poison: bool = True, timeout_ms: int | None = None) -> None:
        """Send `rate` messages a second until `stop`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(rate, poison, timeout_ms), name="load", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until the broker has what was sent."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure
        self.flush()

    def flush(self) -> None:
        """Return once the broker has what was sent; fails after a minute."""
        left = self._producer.flush(_FLUSH)
        assert not left, f"the broker didn't take {left} messages of the load"

    def ask(
        self, count: int, *, key: bytes | None = None, timestamp_ms: int = 0, timeout_ms: int | None = None
    ) -> None:
        """Send `count` queries at once, in one partition if they share a `key`; the broker has them on return.

        `timestamp_ms` 0 is now.
        """
        queries = [query(next(self._numbers), timeout_ms) for _ in range(count)]
        self.send([(key or own, value) for own, value in queries], timestamp_ms=timestamp_ms)

    def send(
        self,
        messages: Sequence[tuple[bytes | None, bytes | None]],
        headers: Sequence[Sequence[tuple[str, bytes]]] | None = None,
        *,
        timestamp_ms: int = 0,
    ) -> None:
        """Send these messages; the broker has them on return."""
        for (key, value), own in zip(messages, headers or itertools.repeat(()), strict=False):
            self._producer.produce(
                self._topic, value, key, headers=list(own), timestamp=timestamp_ms, on_delivery=_delivered
            )
            self._producer.poll(0)
        self.flush()

    def _run(self, rate: float, poison: bool, timeout_ms: int | None) -> None:
        began = time.time()
        try:
            self._loop(rate, poison, timeout_ms)
        except BaseException as error:  # noqa: BLE001  it is `stop` that raises it
            self._failure = error
        self.stretches.append((began, time.time()))

    def _loop(self, rate: float, poison: bool, timeout_ms: int | None) -> None:
        clock = time.monotonic()
        for turn in itertools.count():
            if self._stop.wait(max(0.0, clock + turn / rate - time.monotonic())):
                return
            key, value = query(next(self._numbers), timeout_ms)
            if poison and turn % POISON_EVERY == POISON_EVERY // 2:
                value = next(self._poison)
            self._producer.produce(self._topic, value, key)
            self._producer.poll(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        # What is left belongs to a broker that is gone.
        self._producer.purge()


def _delivered(error: KafkaError | None, _: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def main() -> None:
    """Send queries at a rate for some seconds, as a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.load", description=main.__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--rate", type=float, default=RATE, help="messages a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--timeout-ms", type=int, help="of each query")
    parser.add_argument("--first", type=int, default=0, help="the number of the first query")
    arguments = parser.parse_args()
    with Load(arguments.bootstrap, arguments.topic, arguments.first) as load:
        load.start(arguments.rate, poison=False, timeout_ms=arguments.timeout_ms)
        time.sleep(arguments.seconds)
        load.stop()


if __name__ == "__main__":
    main()
