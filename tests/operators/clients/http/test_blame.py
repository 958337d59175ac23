"""A failure says what is to blame, by its status and a control request, and never changes."""

import pytest

from operators.clients.http.dialect import by_status
from schemas.errors import BackendBadResponse, BackendError, BackendTimeout, Blame, Reason


@pytest.mark.parametrize(
    ("statuses", "blame", "served", "unserved"),
    [
        ([400, 413, 422], Blame.REQUEST, Blame.REQUEST, Blame.CONFIGURATION),
        ([401, 403], Blame.CONFIGURATION, Blame.REQUEST, Blame.BACKEND),
        ([302, 404, 409, 424, 500, 501, 505], Blame.UNKNOWN, Blame.REQUEST, Blame.BACKEND),
        ([408, 429, 502, 503, 504, 520, 530], Blame.BACKEND, Blame.REQUEST, Blame.BACKEND),
    ],
)
def test_what_is_to_blame(statuses: list[int], blame: Blame, served: Blame, unserved: Blame) -> None:
    """A status says it first; a control request, answered or not, has the last word."""
    for status in statuses:
        error = by_status("backend", status)
        assert (error.blame, error.but(serves_others=True).blame) == (blame, served)
        assert error.but(serves_others=False).blame is unserved


@pytest.mark.parametrize("status", [429, 503, 521])
def test_an_overload_has_read_nothing(status: int) -> None:
    """The request of a failure may have been read, unless its status denies that."""
    assert by_status("backend", status).unread
    assert not by_status("backend", 500).unread


@pytest.mark.parametrize(
    "error",
    [
        BackendTimeout("late", unread=True),
        BackendBadResponse("no order", reason=Reason.REFUSED),
        by_status("chat", 400),
    ],
)
def test_a_failure_never_changes(error: BackendError) -> None:
    """A failure of which more is known is another one, the same in all else."""
    more = error.but(retry_after=1.0)
    assert (type(more), str(more), error.retry_after) == (type(error), str(error), 0.0)
    assert vars(more) == {**vars(error), "retry_after": 1.0}
