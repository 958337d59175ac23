"""The state that objects print, for logs and debuggers."""

import asyncio

from operators.clients.admission import OPENS_AFTER, Breaker
from operators.clients.http.pool import PooledTransport
from operators.delivery.tracker import Commit, OffsetTracker


def test_a_breaker_tells_if_it_is_open() -> None:
    """With the failures in a row and the calls under way."""
    breaker = Breaker()
    assert repr(breaker) == "<Breaker closed: 0 failures in a row, 0 of inf calls>"
    for _ in range(OPENS_AFTER):
        breaker.fail(breaker.begin(), 10.0)
    assert repr(breaker).startswith("<Breaker open until 10.2")


def test_a_tracker_tells_its_position() -> None:
    """With the offsets that were read and are not done, and those that are."""
    tracker = OffsetTracker(Commit(7, ""))
    tracker.see(7)
    tracker.see(8)
    assert repr(tracker) == "<OffsetTracker at 7: 2 in flight, 0 done>"


def test_a_pool_tells_its_connections() -> None:
    """Without any at first."""

    async def told() -> str:
        return repr(PooledTransport(max_connections=3, keep_alive=1.0, verify=False))

    assert asyncio.run(told()) == "<PooledTransport: 0 open, 0 idle, 0 requests wait>"
