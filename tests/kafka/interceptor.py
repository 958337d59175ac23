"""A proxy before a broker that reads Kafka's frames, and does to a chosen request what a network may do to it."""

import asyncio
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from weakref import WeakKeyDictionary

from tests.kafka.frames import Api, Request, Versions
from tests.proxy import Connection, Mode, Proxy

DELAY: Final = 0.3
"""Seconds by which a delayed request comes later."""

_ANSWER: Final = 5.0
_LENGTH: Final = 4
_KEPT: Final = 100_000
_FORWARDED: Final = 100


class Fate(StrEnum):
    """The fate of a request, and of the connection that it was sent on."""

    HELD = "held"  # not forwarded, the connection reset; delivered late
    REPEATED = "repeated"  # forwarded, the connection reset in place of the answer; delivered again, late
    DROPPED = "dropped"  # not forwarded, the connection reset
    UNANSWERED = "unanswered"  # forwarded, the connection reset in place of the answer
    DELAYED = "delayed"  # forwarded after DELAY seconds, the connection kept
    ANSWERED = "answered"  # forwarded; the broker's answer has the order's `code` in place of its own


LATE: Final = (Fate.HELD, Fate.REPEATED)


@dataclass
class Order:
    """The `fate` of the next request of kind `api`; for EndTxn, of one that commits, or one that aborts.

    What is late is delivered on a connection of its own: once the broker has agreed to the first `point` of the same
    transactional id's following transaction, and before the client hears of it; without a `point`, at `release`.
    """

    fate: Fate
    api: Api
    point: Api | None = None
    committed: bool | None = None
    code: int = 0
    caught: Request | None = None
    errors: set[int] | None = None
    """The broker's error codes for what came late; empty if it took it, None if it gave no answer."""
    fulfilled: threading.Event = field(default_factory=threading.Event)
    over: bool = False
    """True if the transaction of the caught request has ended."""

    def wants(self, request: Request) -> bool:
        """True if this is the request that it waits for."""
        return (
            self.caught is None
            and request.api is self.api
            and (self.committed is None or request.committed == self.committed)
        )

    def due(self, answered: Request) -> bool:
        """True if the late request is to be delivered now that the broker has agreed to this one."""
        caught = self.caught
        if caught is None or self.fate not in LATE or self.fulfilled.is_set():
            return False
        if answered.transactional_id != caught.transactional_id:
            return False
        if self.over:
            return answered.api is self.point
        self.over = (
            answered.api in {Api.END_TXN, Api.OFFSET_COMMIT} or answered.api is caught.api is Api.INIT_PRODUCER_ID
        )
        return False


def _framed(answer: bytes) -> bytes:
    return len(answer).to_bytes(_LENGTH) + answer


class Interceptor(Proxy):
    """Forwards frame by frame, and carries out orders."""

    def __init__(self, target_host: str, target_port: int, latency: float = 0.2) -> None:
        super().__init__(target_host, target_port, latency)
        self._orders: list[Order] = []
        self._asked: WeakKeyDictionary[Connection, dict[int, Request]] = WeakKeyDictionary()
        self.forwarded: deque[Request] = deque(maxlen=_FORWARDED)
        """The latest requests that were forwarded undisturbed."""
        self._introduced: WeakKeyDictionary[Connection, dict[int, Versions]] = WeakKeyDictionary()
        self.lacking: frozenset[int] = frozenset()
        """The kinds of requests that the broker does not have, as it seems to clients."""
        self.throttle_ms = 0
        """The time for which each answer to a request that delivers seems to be throttled."""
        self.seen: deque[str] = deque(maxlen=_KEPT)
        """The requests that passed, in words, the latest last."""

    def order(self, *orders: Order) -> None:
        """Carry out these orders, in place of those before. A request that several want is the first one's."""
        self._orders = list(orders)

    def reset(self) -> None:
        """Forward all, carry out no order, and forget what was seen."""
        self.switch(Mode.PASS)
        self.order()
        self.seen.clear()

    def release(self, order: Order) -> None:
        """Deliver what was caught for `order` now, and return when the broker has answered."""
        asyncio.run_coroutine_threadsafe(self._deliver(order), self._loop).result()

    async def _read(self, source: asyncio.StreamReader) -> bytes:
        try:
            length = await source.readexactly(_LENGTH)
            return length + await source.readexactly(int.from_bytes(length))
        except asyncio.IncompleteReadError:
            return b""

    async def _passed(self, connection: Connection, chunk: bytes, *, answer: bool) -> bytes:
        frame = chunk[_LENGTH:]
        asked = self._asked.setdefault(connection, {})
        introduced = self._introduced.setdefault(connection, {})
        if answer and (versions := introduced.pop(int.from_bytes(frame[:4]), None)) is not None:
            return _framed(versions.without(frame, self.lacking)) if self.lacking else chunk
        if not answer and (asks := Versions.read(frame)) is not None:
            introduced[int.from_bytes(frame[4:8])] = asks
            return chunk
        if answer:
            request = asked.pop(int.from_bytes(frame[:4]), None)
            return chunk if request is None else await self._answered(connection, request, chunk)
        read = Request.read(frame)
        if read is None:
            return chunk
        asked[read.correlation] = read
        return chunk if await self._asks(connection, read) else b""

    async def _asks(self, connection: Connection, request: Request) -> bool:
        order = next((order for order in self._orders if order.wants(request)), None)
        if order is None:
            self._note(connection, f"{request}")
            self.forwarded.append(request)
            return True
        order.caught = request
        self._note(connection, f"{request}: {order.fate}")
        if order.fate is Fate.DELAYED:
            await asyncio.sleep(DELAY)
        if order.fate in {Fate.DELAYED, Fate.DROPPED}:
            order.fulfilled.set()
        if order.fate in {Fate.HELD, Fate.DROPPED}:
            connection.reset()
            return False
        return True

    async def _answered(self, connection: Connection, request: Request, chunk: bytes) -> bytes:
        errors = request.errors(chunk[_LENGTH:])
        self._note(connection, f"{request} answered {errors or ''}")
        for order in self._orders:
            if order.caught is request and order.fate in {Fate.REPEATED, Fate.UNANSWERED}:
                if order.fate is Fate.UNANSWERED:
                    order.fulfilled.set()
                connection.reset()
                return b""
            if order.caught is request and order.fate is Fate.ANSWERED:
                order.fulfilled.set()
                return _framed(request.with_error(chunk[_LENGTH:], order.code))
            if not errors and order.due(request):
                await self._deliver(order)
        return _framed(request.throttled(chunk[_LENGTH:], self.throttle_ms)) if self.throttle_ms else chunk

    async def _deliver(self, order: Order) -> None:
        assert order.caught is not None
        try:
            async with asyncio.timeout(_ANSWER):
                reader, writer = await asyncio.open_connection(*self._target)
                writer.write(len(order.caught.frame).to_bytes(_LENGTH) + order.caught.frame)
                answer = await self._read(reader)
                order.errors = order.caught.errors(answer[_LENGTH:])
                writer.close()
        except (OSError, TimeoutError):
            order.errors = None
        self._note(None, f"{order.caught} came late: {order.errors}")
        order.fulfilled.set()

    def _note(self, connection: Connection | None, what: str) -> None:
        self.seen.append(f"{time.time():.4f} {id(connection) & 0xFFFFFF:06x} {what}")
