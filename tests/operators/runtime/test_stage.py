"""A stage: one item's fault is that item's own, and what comes in comes out, once, in the same batch."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.runtime.stage import run_step, sync_stage
from operators.wire.message import Message, Rejected
from schemas.errors import DeadLetterClass, InputError
from tests.operators.runtime.flowing import flowed
from tests.operators.samples import message

CANARY = "the secret text of a query"


@dataclass
class Item:
    """An item: `fate` is what happens to it in the stage."""

    number: int
    fate: str = "on"
    answered: bool = False

    @property
    def message(self) -> Message:
        """Its message."""
        return message(offset=self.number)

    def reject(self, stage: str, kind: DeadLetterClass, reason: str, field: str | None = None) -> Rejected:
        """The refusal of its message."""
        return Rejected(self.message, kind, stage, reason, field=field)


def step(item: Item) -> Item:
    """Do to an item what its fate says."""
    if item.fate == "refused":
        raise InputError(DeadLetterClass.TOO_LARGE, "it is too large")
    if item.fate == "defect":
        raise KeyError(CANARY)
    item.answered = item.fate == "answered"
    return item


def worked(items: list[Item]) -> list[Item | Rejected]:
    """The items after the step."""
    return run_step("work", items, step)


def through(batches: list[list[Item]]) -> list[list[Item | Rejected]]:
    """The batches that leave a stage in a flow."""
    return flowed(batches, lambda up: sync_stage("work", up, step))


def offsets(items: list[Item | Rejected]) -> list[int]:
    """Which they are."""
    return [item.message.origin.offset for item in items]


def test_a_batch_leaves_as_one() -> None:
    """Items that go on, are answered or are rejected leave together, and each says for itself which it is."""
    first, second = through([[Item(0), Item(1, "answered"), Item(2, "refused"), Item(3)], [Item(4)], []])
    assert (offsets(first), offsets(second)) == ([0, 1, 2, 3], [4])
    assert [item.answered for item in first] == [False, True, True, False]
    assert isinstance(first[2], Rejected)


def test_what_is_answered_or_rejected_passes_by() -> None:
    """A later stage does nothing to it, and keeps none of it."""
    answered, rejected = Item(1, "defect", answered=True), Rejected(message(), DeadLetterClass.INVALID, "before", "why")
    (left,) = flowed([[Item(0), answered, rejected]], lambda up: sync_stage("work", up, step))
    assert [each for each in left if each is answered or each is rejected] == [answered, rejected]
    assert len(left) == 3


def test_an_item_that_waits_elsewhere_leaves_the_flow() -> None:
    """None in place of an item: it is somebody else's to bring back."""
    assert run_step("work", [Item(0), Item(1)], lambda item: None if item.number else item) == [Item(0)]


def test_a_refusal_names_class_stage_and_reason() -> None:
    """An InputError becomes a rejection of its class, with the stage's name and the error's own words."""
    (rejected,) = run_step("decode", [Item(7, "refused")], step)
    assert isinstance(rejected, Rejected)
    assert (rejected.kind, rejected.stage, rejected.reason) == (DeadLetterClass.TOO_LARGE, "decode", "it is too large")
    assert rejected.message.origin.offset == 7


def test_a_defect_rejects_one_item_and_leaves_the_others() -> None:
    """An exception that nobody expected is that one item's dead letter of class `internal`."""
    first, rejected, last = worked([Item(0), Item(1, "defect"), Item(2)])
    assert (first, last) == (Item(0), Item(2))
    assert isinstance(rejected, Rejected)
    assert (rejected.message.origin.offset, rejected.kind) == (1, DeadLetterClass.INTERNAL)


def test_a_defect_is_logged_without_what_it_quotes() -> None:
    """The log has the traceback and the place; neither log nor dead letter has the exception's words."""
    with capture_logs() as lines:
        (rejected,) = worked([Item(5, "defect")])
    assert isinstance(rejected, Rejected)
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("stage raised an unexpected error", "error")
    assert (line["stage"], line["error"], line["offset"]) == ("work", "KeyError", 5)
    assert "in step" in line["where"]
    assert CANARY not in str(line)
    assert rejected.reason == "KeyError"


@given(st.lists(st.sampled_from(["on", "answered", "refused", "defect"]), max_size=12))
def test_every_item_leaves_once(fates: list[str]) -> None:
    """Nothing is lost and nothing is doubled, whatever happens to whom."""
    left = worked([Item(number, fate) for number, fate in enumerate(fates)])
    assert offsets(left) == list(range(len(fates)))


def test_a_process_can_still_be_stopped() -> None:
    """A BaseException that is no Exception, a keyboard's interrupt for one, is nobody's dead letter."""

    def interrupted(item: Item) -> Item:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_step("work", [Item(0)], interrupted)
