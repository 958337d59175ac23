"""Windows beside a join of the whole topic: the same preferences, each once, whoever reads the topic, and how often."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from operators.experiments.window import Closed, FeedbackOutcome, Windows
from tests.operators.experiments.joining import Event, Query, impression, join, joined_of

LENGTH = 100
MOST = 3
FOREVER = 10_000

impressions = st.builds(
    impression,
    st.sampled_from(["q0", "q1", "q2"]),
    st.sampled_from([f"d{number}" for number in range(5)]),
    st.sampled_from([0, 30, 90, 400]),
    experiment=st.sampled_from(["x", "y"]),
)
topics = st.lists(
    st.builds(Event, st.integers(0, 600), impressions, st.sampled_from(["click", "buy"])), max_size=40
).map(lambda events: sorted(events, key=lambda event: event.time))


def windows(most_open: int = FOREVER) -> Windows:
    """New windows of a partition."""
    return Windows(LENGTH, MOST, most_open)


def read(at: Windows, events: Sequence[tuple[int, Event]]) -> tuple[list[Closed], dict[int, FeedbackOutcome]]:
    """Read these events, each with its offset; what closed, and the outcomes of events that are in no window."""
    closed: list[Closed] = []
    outcomes: dict[int, FeedbackOutcome] = {}
    for offset, event in events:
        closed += at.advance(event.time)
        outcome = at.add(event.impression, event.action, offset, event.time)
        if outcome is not None:
            outcomes[offset] = outcome
    return closed, outcomes


def known(closed: Sequence[Closed]) -> dict[Query, dict[str, Any]]:
    """The preferences as the join has them; fails if a query has two."""
    found = dict(joined_of(each.preference.model_dump()) for each in closed)
    assert len(found) == len(closed)
    return found


@given(topics)
def test_windows_are_the_join_of_the_whole_topic(events: list[Event]) -> None:
    """Each query's preference is that of all its events within the window; each event ends exactly once."""
    at = windows()
    closed, outcomes = read(at, [*enumerate(events)])
    closed += at.advance(FOREVER)
    assert known(closed) == join(events, LENGTH, MOST)
    ended = [offset for each in closed for offset in each.offsets]
    assert sorted([*ended, *outcomes]) == [*range(len(events))]
    assert all(list(each.offsets) == sorted(each.offsets) for each in closed)


@given(topics, st.data())
def test_a_new_owner_makes_the_same_preferences(events: list[Event], data: st.DataObject) -> None:
    """The owner dies anywhere; the next one reads what is not ended, and together they made each preference once."""
    numbered = [*enumerate(events)]
    dies = data.draw(st.integers(0, len(events)))
    closed, outcomes = read(windows(), numbered[:dies])
    done = {*outcomes, *(offset for each in closed for offset in each.offsets)}
    successor = windows()
    closed += read(successor, [each for each in numbered if each[0] not in done])[0]
    closed += successor.advance(FOREVER)
    assert known(closed) == join(events, LENGTH, MOST)


def test_a_window_closes_once_time_has_passed_its_end() -> None:
    """An event at its very end is within it; the next millisecond closes it, and an event of its query is late."""
    at = windows()
    assert at.advance(0) == []
    assert at.add(impression(), "click", 7, 0) is None
    assert at.advance(LENGTH) == []
    assert at.add(impression(document="d1"), "click", 8, LENGTH) is None
    [(preference, offsets)] = at.advance(LENGTH + 1)
    assert (preference.a, preference.b, preference.preferred, list(offsets)) == (1, 1, "tie", [7, 8])
    assert at.add(impression(), "click", 9, LENGTH + 1) is FeedbackOutcome.LATE


def test_a_query_from_the_future_opens_no_window() -> None:
    """A clock that is ahead by more than a length would keep the window open for as long as it is ahead."""
    at = windows()
    at.advance(1000)
    assert at.add(impression(issued=1000 + LENGTH), "click", 0, 1000) is None
    assert at.add(impression(issued=1000 + LENGTH + 1), "click", 1, 1000) is FeedbackOutcome.EARLY


def test_a_robots_window_has_few_clicks_and_says_so() -> None:
    """One click more than a person makes is enough to know; doubled ones don't count, and further ones aren't kept."""
    at = windows()
    for number in range(3 * MOST):
        at.add(impression(document=f"d{number % MOST}"), "click", number, 0)
    at.add(impression("robot"), "click", 100, 0)
    for number in range(1, 9):
        at.add(impression("robot", f"d{number}"), "click", 100 + number, 0)
    person, robot = sorted(at.advance(FOREVER), key=lambda each: each.preference.query_id)
    assert (person.preference.robot, len(person.preference.clicks), len(person.offsets)) == (False, MOST, 3 * MOST)
    assert (robot.preference.robot, len(robot.preference.clicks), len(robot.offsets)) == (True, MOST + 1, 9)


def test_more_messages_than_may_be_open_are_shed() -> None:
    """They are in no window, and those that are in one count; when it has closed there is room again."""
    at = windows(most_open=2)
    assert [at.add(impression(), "click", number, 0) for number in range(3)] == [None, None, FeedbackOutcome.SHED]
    assert at.add(impression("other"), "click", 3, 0) is FeedbackOutcome.SHED
    [(_, offsets)] = at.advance(LENGTH + 1)
    assert list(offsets) == [0, 1]
    assert at.add(impression(issued=LENGTH), "click", 4, LENGTH + 1) is None


def test_a_click_has_its_actions_and_its_first_rank() -> None:
    """A document is one click, with each action once, sorted."""
    at = windows()
    for number, (rank, action) in enumerate([(0, "click"), (0, "buy"), (5, "click")]):
        at.add(impression(rank=rank), action, number, 0)
    [(preference, _)] = at.advance(FOREVER)
    assert [click.model_dump() for click in preference.clicks] == [
        {"id": "d0", "rank": 0, "side": "a", "actions": ["buy", "click"]}
    ]
    assert (preference.a, preference.b, preference.preferred) == (2, 0, "a")
