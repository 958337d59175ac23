"""A stage: one item's fault is that item's own, and what comes in comes out in exactly one of three streams."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource, run_main
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from operators.query.message import Message, Rejected
from operators.runtime.stage import sort, stage
from schemas.errors import DeadLetterClass, InputError
from tests.operators.samples import message

CANARY = "the secret text of a query"


@dataclass
class Item:
    """What flows: `fate` is what happens to it in the stage."""

    number: int
    fate: str = "on"
    answered: bool = False

    @property
    def message(self) -> Message:
        """Its message."""
        return message(offset=self.number)


def step(item: Item) -> Item:
    """Do to an item what its fate says."""
    if item.fate == "refused":
        raise InputError(DeadLetterClass.TOO_LARGE, "it is too large")
    if item.fate == "defect":
        raise KeyError(CANARY)
    item.answered = item.fate == "answered"
    return item


def ran(
    batches: list[list[Item]], do: Callable[[Item], Item] = step
) -> tuple[list[list[Item]], list[list[Item]], list[list[Rejected]]]:
    """Run a stage in a flow: what came out of on, answered and dead."""
    on: list[list[Item]] = []
    answered: list[list[Item]] = []
    dead: list[list[Rejected]] = []
    flow = Dataflow("stage")
    made = stage("work", op.input("in", flow, TestingSource(batches)), lambda item: item.message, do)
    assert made.answered is not None
    assert made.dead is not None
    op.output("on", made.on, TestingSink(on))
    op.output("answered", made.answered, TestingSink(answered))
    op.output("dead", made.dead, TestingSink(dead))
    run_main(flow)
    return on, answered, dead


def test_a_batch_is_parted_into_three_streams() -> None:
    """Each item leaves through the stream of its fate, in order; a stream without items gets no empty list."""
    on, answered, dead = ran([[Item(0), Item(1, "answered"), Item(2, "refused"), Item(3)], [Item(4)], []])
    assert [[item.number for item in batch] for batch in on] == [[0, 3], [4]]
    assert [[item.number for item in batch] for batch in answered] == [[1]]
    assert [[rejected.message.origin.offset for rejected in batch] for batch in dead] == [[2]]


def test_a_refusal_names_class_stage_and_reason() -> None:
    """An InputError becomes a rejection of its class, with the stage's name and the error's own words."""
    (rejected,) = sort("decode", [Item(7, "refused")], lambda item: item.message, step).dead
    assert (rejected.kind, rejected.stage, rejected.reason) == (DeadLetterClass.TOO_LARGE, "decode", "it is too large")
    assert rejected.message.origin.offset == 7


def test_a_defect_rejects_one_item_and_leaves_the_others() -> None:
    """An exception that nobody expected is that one item's dead letter of class `internal`."""
    on, _, dead = ran([[Item(0), Item(1, "defect"), Item(2)]])
    assert [[item.number for item in batch] for batch in on] == [[0, 2]]
    assert [(rejected.message.origin.offset, rejected.kind) for batch in dead for rejected in batch] == [
        (1, DeadLetterClass.INTERNAL)
    ]


def test_a_defect_is_logged_without_what_it_quotes() -> None:
    """The log has the traceback and the place; neither log nor dead letter has the exception's words."""
    with capture_logs() as lines:
        (rejected,) = sort("work", [Item(5, "defect")], lambda item: item.message, step).dead
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("stage raised an unexpected error", "error")
    assert (line["stage"], line["error"], line["offset"]) == ("work", "KeyError", 5)
    assert "in step" in line["where"]
    assert CANARY not in str(line)
    assert rejected.reason == "KeyError"


@given(st.lists(st.sampled_from(["on", "answered", "refused", "defect"]), max_size=12))
def test_every_item_leaves_once(fates: list[str]) -> None:
    """Nothing is lost and nothing is doubled, whatever happens to whom."""
    parted = sort("work", [Item(number, fate) for number, fate in enumerate(fates)], lambda item: item.message, step)
    left = [item.number for item in parted.on + parted.answered]
    left += [rejected.message.origin.offset for rejected in parted.dead]
    assert sorted(left) == list(range(len(fates)))


def test_a_process_can_still_be_stopped() -> None:
    """What isn't an Exception, a keyboard's interrupt for one, is nobody's dead letter."""

    def interrupted(item: Item) -> Item:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sort("work", [Item(0)], lambda item: item.message, interrupted)
