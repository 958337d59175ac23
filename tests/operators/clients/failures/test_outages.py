"""The log of failures: each kind at once, none too often, and its end when it has one."""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from operators.clients.failures import INTERVAL, KINDS, Ended, Kind, Outages
from schemas.errors import Reason

SCOPES = ["a", "b"]

DOWN = Kind(None, Reason.UNAVAILABLE, "connection refused")
MISSING = Kind("a", Reason.NO_COLLECTION, "no such collection")
REFUSED = Kind("a", Reason.REFUSED, "no index", lasting=False)


@dataclass(frozen=True)
class Success:
    """A success in a scope."""

    scope: str


EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, INTERVAL / 3, INTERVAL, 2 * INTERVAL]),
        st.sampled_from([DOWN, MISSING, REFUSED, Kind("b", Reason.UNAUTHORIZED, "key"), *map(Success, SCOPES)]),
    ),
    max_size=60,
)


@given(EVENTS)
def test_every_failure_is_counted_in_a_line_once(events: list[tuple[float, Kind | Success]]) -> None:
    """The first of a kind is said at once, later ones an interval after the last line, with all that came since."""
    outages, now = Outages(), 0.0
    said_at: dict[Kind, float] = {}
    unsaid: Counter[Kind] = Counter()
    for pause, event in events:
        now += pause
        if isinstance(event, Success):
            outages.succeeded(event.scope, now)
            continue
        unsaid[event] += 1
        due = event not in said_at or now - said_at[event] >= INTERVAL
        assert outages.failed(event, now) == (unsaid[event] if due else None)
        if due:
            said_at[event] = now
            del unsaid[event]


@given(EVENTS)
def test_an_outage_ends_once_by_a_success_in_its_scope(events: list[tuple[float, Kind | Success]]) -> None:
    """Only outages that were said are ended, by the first success that says so, with all that failed in them."""
    outages, now = Outages(), 0.0
    began: dict[Kind, float] = {}
    failed: Counter[Kind] = Counter()
    said: set[Kind] = set()
    for pause, event in events:
        now += pause
        if isinstance(event, Kind):
            if outages.failed(event, now) is not None:
                said.add(event)
            began.setdefault(event, now)
            failed[event] += 1
            continue
        over = [kind for kind in began if kind.lasting and kind.scope in (None, event.scope)]
        assert outages.under_way == any(kind.lasting for kind in began)
        ended = [Ended(kind, now - began[kind], failed[kind]) for kind in over if kind in said]
        assert outages.succeeded(event.scope, now) == ended
        for kind in over:
            del began[kind], failed[kind]
            said.discard(kind)


def test_a_collection_is_not_healed_by_another() -> None:
    """A failure for one collection goes on while others are answered; an outage of the server ends at once."""
    outages = Outages()
    outages.failed(MISSING, 0.0)
    outages.failed(DOWN, 1.0)
    assert outages.succeeded("b", 5.0) == [Ended(DOWN, 4.0, 1)]
    assert outages.succeeded("a", 7.0) == [Ended(MISSING, 7.0, 1)]
    assert outages.succeeded("a", 8.0) == []


def test_numbers_make_no_kind() -> None:
    """Two limits that were exceeded are one kind of failure, two fields without an index are two."""
    outages = Outages()
    said = [
        outages.failed(Kind("a", Reason.REFUSED, words), 0.0)
        for words in ("limit 200 > 100", "limit 300 > 100", "no index for x", "no index for y")
    ]
    assert said == [1, None, 1, 1]


@given(st.lists(st.booleans(), min_size=3 * KINDS, max_size=5 * KINDS))
def test_lines_are_bounded_whatever_is_quoted(lasting: list[bool]) -> None:
    """A backend that quotes another text in each error has so many lines in an interval, and two for all the rest."""
    outages = Outages()
    kinds = [Kind("a", Reason.REFUSED, "x" * number, lasts) for number, lasts in enumerate(lasting)]
    lines = [outages.failed(kind, 0.0) for kind in kinds]
    assert sum(line is not None for line in lines) <= KINDS + 2


def test_kinds_that_are_over_make_room() -> None:
    """After a minute, old kinds are forgotten for new ones, which are told apart again."""
    outages = Outages()
    for number in range(3 * KINDS):
        outages.failed(Kind("a", Reason.REFUSED, "x" * number, lasting=False), 0.0)
    assert outages.failed(Kind("a", Reason.REFUSED, "new"), INTERVAL) == 1
    assert outages.failed(Kind("a", Reason.REFUSED, "newer"), INTERVAL) == 1
