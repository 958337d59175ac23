"""Room: what a result gives up that is larger than its topic takes, in which order."""

from typing import Any

from operators.stages.publish import Publisher
from tests.operators.query.test_result import ranked
from tests.operators.stages.test_publish import event_of, written
from tests.operators.stages.test_publish import taking as publishing


def taking(size: int) -> Publisher:
    """A publisher whose topic takes so many bytes of a record."""
    return publishing(results=size, dead_letters=1_000_000)


def in_room(size: int) -> tuple[dict[str, Any], int]:
    """The answer to a query that wants its pool, in a topic that takes so many bytes; and the answer's size."""
    record = written(ranked(record=True, explain=True), taking(size))
    return event_of(record), record.size


POOL_OUT = "the candidate pool is left out: the topic takes no more"
TOO_LARGE = [{"stage": "result", "reason": "too_large"}]


def test_what_has_no_room_goes_in_order_and_is_said() -> None:
    """Byte by byte less room: first the pool goes, then texts and payloads, then results from the end; each time the
    answer says what it lost, and what is left is as it was.
    """
    whole, size = in_room(1_000_000)
    assert (whole["status"], whole["degraded"], whole["warnings"]) == ("ok", [], [])
    assert in_room(size)[0] == whole

    unrecorded, size = in_room(size - 1)
    assert "pool" not in unrecorded
    assert unrecorded["results"] == whole["results"]
    assert (unrecorded["status"], unrecorded["degraded"], unrecorded["warnings"]) == ("partial", TOO_LARGE, [POOL_OUT])
    assert in_room(size)[0] == unrecorded

    bare, size = in_room(size - 1)
    assert [(hit["text"], hit["payload"]) for hit in bare["results"]] == [(None, {})] * 5
    for short, full in zip(bare["results"], whole["results"], strict=True):
        assert {**short, "text": full["text"], "payload": full["payload"]} == full
    assert (bare["degraded"], bare["warnings"]) == (TOO_LARGE, [POOL_OUT])
    assert in_room(size)[0] == bare

    fewer, _ = in_room(size - 1)
    assert fewer["results"] == bare["results"][:-1]
    assert fewer["degraded"] == TOO_LARGE
    assert fewer["warnings"] == [POOL_OUT, "the last 1 of 5 results are left out: the topic takes no more"]
    assert (fewer["total"], fewer["has_more"]) == (5, True)
