"""The log of failures: each kind at once, none too often, and its end when it has one."""

from collections import Counter
from collections.abc import Iterable, MutableMapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.clients.failures import INTERVAL, KINDS, OutageLog
from operators.clients.http.dialect import by_status
from schemas.errors import BackendBadResponse, BackendError, BackendUnavailable, Blame, Reason
from tests.operators.clients.http.resilience import Clock

SCOPES = ["a", "b"]

DOWN = BackendUnavailable("connection refused")
MISSING = BackendBadResponse("no such collection", 404, Reason.NO_COLLECTION)
REFUSED = BackendBadResponse("no index", 400, Reason.REFUSED)
KEY = by_status("qdrant", 403)

Event = tuple[str, BackendError | None]
"""A collection, and how a request to it failed; None: it was answered."""

EVENTS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.5, INTERVAL / 3, INTERVAL, 2 * INTERVAL]),
        st.sampled_from([("a", DOWN), ("a", MISSING), ("a", REFUSED), ("b", KEY), *((each, None) for each in SCOPES)]),
    ),
    max_size=60,
)


class Logged:
    """A log of outages on a clock of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._log = OutageLog({"backend": "qdrant"}, self.clock, lambda path: path)

    def after(self, pause: float, *events: Event) -> list[MutableMapping[str, Any]]:
        """The lines of these events, so many seconds later."""
        self.clock.pass_by(pause)
        with capture_logs() as lines:
            for scope, error in events:
                if error is None:
                    self._log.succeeded(scope)
                else:
                    self._log.failed(error, scope)
        return lines


def counts(lines: Iterable[MutableMapping[str, Any]]) -> list[int]:
    """The number of failures that each line is about."""
    return [line["failed"] for line in lines]


@given(EVENTS)
def test_every_failure_is_counted_in_a_line_once(events: list[tuple[float, Event]]) -> None:
    """The first of a kind is said at once, later ones an interval after the last line, with all that came since."""
    log, now = Logged(), 0.0
    said_at: dict[BackendError, float] = {}
    unsaid: Counter[BackendError] = Counter()
    for pause, (scope, error) in events:
        now += pause
        lines = log.after(pause, (scope, error))
        if error is None:
            continue
        unsaid[error] += 1
        due = error not in said_at or now - said_at[error] >= INTERVAL
        assert counts(lines) == ([unsaid[error]] if due else [])
        if due:
            said_at[error] = now
            del unsaid[error]


@given(EVENTS)
def test_an_outage_ends_once_by_a_success_in_its_scope(events: list[tuple[float, Event]]) -> None:
    """Only outages that were said are ended, by the first success that says so, with all that failed in them."""
    log, now = Logged(), 0.0
    began: dict[BackendError, tuple[float, str]] = {}
    failed: Counter[BackendError] = Counter()
    said: set[BackendError] = set()
    for pause, (scope, error) in events:
        now += pause
        lines = log.after(pause, (scope, error))
        if error is not None:
            if lines:
                said.add(error)
            began.setdefault(error, (now, scope))
            failed[error] += 1
            continue
        lasting = {each: since for each, since in began.items() if each.blame is not Blame.REQUEST}
        over = {each: since for each, (since, of) in lasting.items() if each is DOWN or of == scope}
        ended = [(each.reason.value, round(now - over[each], 1), failed[each]) for each in over if each in said]
        assert [(line["reason"], line["after_s"], line["failed"]) for line in lines] == ended
        for each in over:
            del began[each], failed[each]
            said.discard(each)


def test_a_collection_is_not_healed_by_another() -> None:
    """A failure for one collection goes on while others are answered; an outage of the server ends at once."""
    log = Logged()
    log.after(0.0, ("a", MISSING))
    log.after(1.0, ("a", DOWN))
    assert [line["after_s"] for line in log.after(4.0, ("b", None))] == [4.0]
    assert [line["after_s"] for line in log.after(2.0, ("a", None))] == [7.0]
    assert log.after(1.0, ("a", None)) == []


def refusal(words: str) -> Event:
    """A refusal in these words."""
    return "a", BackendBadResponse(words, 400, Reason.REFUSED)


def test_numbers_make_no_kind() -> None:
    """Two limits that were exceeded are one kind of failure, two fields without an index are two."""
    log = Logged()
    refusals = map(refusal, ("limit 200 > 100", "limit 300 > 100", "no index for x", "no index for y"))
    assert [counts(log.after(0.0, each)) for each in refusals] == [[1], [], [1], [1]]


@given(st.lists(st.booleans(), min_size=3 * KINDS, max_size=5 * KINDS))
def test_lines_are_bounded_whatever_is_quoted(lasting: list[bool]) -> None:
    """A backend that quotes another text in each error has so many lines in an interval, and two for all the rest."""
    reasons = [Reason.NO_COLLECTION if lasts else Reason.REFUSED for lasts in lasting]
    kinds = [BackendBadResponse("x" * number, 404, reason) for number, reason in enumerate(reasons)]
    assert len(Logged().after(0.0, *(("a", each) for each in kinds))) <= KINDS + 2


def test_kinds_that_are_over_make_room() -> None:
    """After a minute, old kinds are forgotten for new ones, which are told apart again."""
    log = Logged()
    log.after(0.0, *(refusal("x" * number) for number in range(3 * KINDS)))
    assert counts(log.after(INTERVAL, refusal("new"), refusal("newer"))) == [1, 1]
