"""Repeated warnings: the first of a kind is printed, and then one a minute that counts the others."""

import logging
from typing import Any

import pytest

from flows.process.logs import INTERVAL, KINDS, Repeats


class Clock:
    """A clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        """The clock's time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock at 0."""
    return Clock()


@pytest.fixture
def repeats(clock: Clock) -> Repeats:
    """A filter on that clock."""
    return Repeats(clock)


def record(name: str, msg: Any, level: int = logging.WARNING) -> logging.LogRecord:
    """A log record."""
    return logging.LogRecord(name, level, __file__, 1, msg, (), None)


def retried(reason: str) -> dict[str, Any]:
    """A failure of ours that is retried."""
    return {"event": "transaction failed", "reason": reason, "retry_in_s": 0.1}


def test_a_kind_is_printed_once_a_minute_with_how_often(repeats: Repeats, clock: Clock) -> None:
    """A thousand failures in two minutes are three lines, of which the later two say how many they stand for."""
    printed = []
    for second in range(121):
        clock.now = float(second)
        for number in range(8):
            each = record("operators.delivery.sink", retried(f"broker {number}: away"))
            if repeats.filter(each):
                printed.append((second, vars(each)["msg"].get("repeated")))
    assert INTERVAL == 60
    assert printed == [(0, None), (60, 479), (120, 479)]


def test_counts_are_summed_up(repeats: Repeats, clock: Clock) -> None:
    """Of what has a count, the line after a minute has that of all; the news of an end, too."""
    failing = {"event": "backend is failing", "backend": "qdrant", "reason": "unavailable", "error": "status 500"}
    well = {"event": "backend is well again", "backend": "qdrant", "reason": "unavailable"}
    printed = []
    for second in range(0, 121, 10):
        clock.now = float(second)
        counted = ((logging.WARNING, {**failing, "count": 2}), (logging.INFO, {**well, "count": 3}))
        records = [record("operators.clients.failures", msg, level) for level, msg in counted]
        said = [vars(each)["msg"] for each in records if repeats.filter(each)]
        printed += [(second, each["event"], each["count"]) for each in said]
    counts = {failing["event"]: 2, well["event"]: 3}
    assert printed == [(at, name, of * n) for at, n in ((0, 1), (60, 6), (120, 6)) for name, of in counts.items()]


def test_the_lines_of_one_broken_connection_are_one(repeats: Repeats) -> None:
    """kafka-python's loggers for connections tell the same several times."""
    names = ("kafka.net.manager", "kafka.net.connection", "kafka.net.manager")
    assert [repeats.filter(record(name, f"{name} lost")) for name in names] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "msg"),
    [
        ("operators.telemetry.export", {"event": "spans were not exported", "reason": "ConnectionError"}),
        ("operators.telemetry.export", {"event": "metrics were not exported", "reason": "HTTP 503"}),
        ("operators.telemetry.export", {"event": "metrics were not exported", "reason": "not in time"}),
        ("opentelemetry.sdk._shared_internal", "Queue full, dropping Span."),
    ],
)
def test_a_collector_that_is_down_is_one_line_a_minute(repeats: Repeats, clock: Clock, name: str, msg: Any) -> None:
    """Batches fail every few seconds; the line after a minute counts those that were not printed."""
    printed = []
    for second in range(0, 121, 5):
        clock.now = float(second)
        each = record(name, dict(msg) if isinstance(msg, dict) else msg)
        if repeats.filter(each):
            fields = each.msg if isinstance(each.msg, dict) else vars(each)
            printed.append((second, fields.get("repeated")))
    assert printed == [(0, None), (60, 11), (120, 11)]


def test_kinds_are_told_apart(repeats: Repeats) -> None:
    """Another reason, another logger and other words are printed."""
    records = [
        record("librdkafka", "no broker can be reached"),
        record("librdkafka", "_AUTHENTICATION"),
        record("kafka.producer", "late"),
        record("operators.delivery.sink", retried("a")),
        record("operators.delivery.sink", retried("b")),
        record("operators.delivery.sink", {"event": "dead letters", "class": "invalid", "stage": "decode", "count": 1}),
        record("operators.delivery.sink", {"event": "dead letters", "class": "invalid", "stage": "admit", "count": 1}),
        record("operators.clients.failures", {"event": "backend is failing", "error": "no index for x", "count": 1}),
        record("operators.clients.failures", {"event": "backend is failing", "error": "no index for y", "count": 1}),
        record("operators.telemetry.export", {"event": "spans were not exported", "reason": "ConnectionError"}),
        record("operators.telemetry.export", {"event": "metrics were not exported", "reason": "ConnectionError"}),
        record("operators.telemetry.export", {"event": "metrics were not exported", "reason": "InvalidSchema"}),
    ]
    assert all(map(repeats.filter, records))


@pytest.mark.parametrize(
    "each",
    [
        record("kafka.net.manager", "connected", logging.INFO),
        record("operators.delivery.producers", {"event": "producer replaced", "reason": "a"}),
        record("another", "failed", logging.ERROR),
    ],
)
def test_everything_else_is_printed_each_time(repeats: Repeats, each: logging.LogRecord) -> None:
    """News, what isn't retried, and other libraries."""
    assert all(repeats.filter(each) for _ in range(3))


def test_kinds_without_end_take_no_memory_without_end(repeats: Repeats) -> None:
    """Words that are always new are printed, and forgotten."""
    for number in range(2 * KINDS):
        assert repeats.filter(record("kafka.producer", "x" * number))
    assert len(repeats._said) == KINDS
