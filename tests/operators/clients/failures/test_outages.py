"""The log of failures: a line each, and the end of an outage."""

from collections import Counter
from collections.abc import MutableMapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.clients.failures import OutageLog
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
        st.sampled_from([0.0, 0.5, 20.0, 60.0]),
        st.sampled_from([("a", DOWN), ("a", MISSING), ("a", REFUSED), ("b", KEY), *((each, None) for each in SCOPES)]),
    ),
    max_size=60,
)


class Logged:
    """A log of outages on a clock of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self._log = OutageLog({"backend": "qdrant"}, self.clock, lambda path: path)

    def after(self, pause: float, scope: str, error: BackendError | None) -> list[MutableMapping[str, Any]]:
        """The lines of this event, so many seconds later."""
        self.clock.pass_by(pause)
        with capture_logs() as lines:
            if error is None:
                self._log.succeeded(scope)
            else:
                self._log.failed(error, scope)
        return lines


@given(EVENTS)
def test_an_outage_ends_once_by_a_success_in_its_scope(events: list[tuple[float, Event]]) -> None:
    """Each failure has a line, and outages end by the first success that says so, with all that failed in them."""
    log, now = Logged(), 0.0
    began: dict[BackendError, tuple[float, str]] = {}
    failed: Counter[BackendError] = Counter()
    for pause, (scope, error) in events:
        now += pause
        lines = log.after(pause, scope, error)
        if error is not None:
            event = "backend refuses requests" if error is REFUSED else "backend is failing"
            assert [(line["event"], line["count"], line["collection"]) for line in lines] == [(event, 1, scope)]
            if error.blame is not Blame.REQUEST:
                began.setdefault(error, (now, scope))
                failed[error] += 1
            continue
        over = {each: since for each, (since, of) in began.items() if each is DOWN or of == scope}
        ended = [(each.reason.value, round(now - over[each], 1), failed[each]) for each in over]
        assert [(line["reason"], line["after_s"], line["count"]) for line in lines] == ended
        for each in over:
            del began[each], failed[each]


def test_a_collection_is_not_healed_by_another() -> None:
    """A failure for one collection goes on while others are answered; an outage of the server ends at once."""
    log = Logged()
    log.after(0.0, "a", MISSING)
    log.after(1.0, "a", DOWN)
    assert [line["after_s"] for line in log.after(4.0, "b", None)] == [4.0]
    assert [line["after_s"] for line in log.after(2.0, "a", None)] == [7.0]
    assert log.after(1.0, "a", None) == []
