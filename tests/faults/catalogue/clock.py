"""Effects of producers' clocks on deadlines."""

import time
from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial
from tests.integration.poison import POISON

DAY_MS: Final = 86_400_000
QUERIES: Final = 300
AT_ONCE: Final = 20
"""Queries that a slow machine, too, answers in full."""


@scenario("clock", rate=None)
def clock_ahead(trial: Trial) -> None:
    """Queries from a clock a day ahead are answered as any others."""
    # By default a broker refuses what is more than an hour ahead.
    trial.alter("queries", "message.timestamp.after.max.ms", DAY_MS * 2)
    for _ in range(QUERIES // AT_ONCE):
        trial.load.ask(AT_ONCE, timestamp_ms=_now_ms() + DAY_MS)
        trial.await_all()
    _assert_all(trial, "ok")


@scenario("clock", rate=None)
def clock_behind(trial: Trial) -> None:
    """Queries from a clock a day behind are expired, and no backend is asked for them."""
    trial.load.ask(20)
    trial.await_all()
    before = {name: proxy.requests for name, proxy in trial.backends.items()}
    began = time.time()
    trial.load.ask(QUERIES, timestamp_ms=_now_ms() - DAY_MS)
    trial.await_all()
    _assert_all(trial, "expired", since=began)
    assert {name: proxy.requests for name, proxy in trial.backends.items()} == before, "a backend was asked"
    trial.load.ask(20)


@scenario("clock", rate=None)
def no_timestamp(trial: Trial) -> None:
    """Queries and poison with a negative timestamp end as all others: no clock was ever there, they are expired."""
    for timestamp in (-1, -5, -DAY_MS):
        trial.load.ask(QUERIES // 10, timestamp_ms=timestamp)
        trial.load.send([(b"poison", poison) for poison in POISON], timestamp_ms=timestamp)
    trial.load.ask(20)


def _assert_all(trial: Trial, status: str, since: float = 0.0) -> None:
    kinds = {answer.kind for answer in trial.answers(since)}
    assert kinds == {status}, f"answers are {sorted(kinds)}"


def _now_ms() -> int:
    return int(time.time() * 1000)
