"""Fuse: the branches of the legs join, and nothing of an answer depends on the order in which the legs come."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from operators.query.backend_answers import Hits
from operators.query.in_flight import InFlight
from operators.query.legs import LEG_SPECS, Searches
from operators.query.search import Found
from operators.runtime.dispatcher import BatchKey, Bounds
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batch, Batches, async_stage, sync_stage
from operators.stages.fuse import Fusion, fuse
from operators.stages.leg import SearchLeg, pass_by
from operators.text.terms import SparseVector
from operators.wire.message import Rejected
from schemas.errors import BackendError, BackendTimeout, DeadLetterClass, Reason
from tests.operators.runtime.flowing import flowed
from tests.operators.runtime.test_async_stage import looping
from tests.operators.samples import capable, message, query
from tests.operators.stages.replayed import CASES, SEARCHES, cases, digest

BUILT = ("vector", "keyword", "structured", "keyword_context", "vector_context")
NOBODY: Any = None
GOLDEN = Path(__file__).with_name("replayed.txt")


def leg(name: str) -> SearchLeg:
    """A leg that asks nobody."""
    return SearchLeg(name, NOBODY, Bounds(30, 64, 8))


def joined(logic: Fusion, *items: object) -> Batch:
    """The items that leave when these come."""
    [out], _ = logic.on_batch([list(items)])
    return out


def test_two_thousand_answers_are_as_they_were() -> None:
    """Byte for byte those of the flow whose legs were one stage, and with them requests, steps, losses, warnings and
    all that traces are told, in whatever order the legs come.
    """
    chance = random.Random(7)
    legs = {name: leg(name) for name in BUILT}
    digests = []
    for case in cases():
        each = SEARCHES(case.query)
        logic = Fusion()
        asked = [name for name in chance.sample(BUILT, len(BUILT)) if legs[name].takes(each)]
        assert {*asked} == {*case.asked}
        out = [] if asked else joined(logic, each)
        for left, name in enumerate(asked, 1):
            assert legs[name].request(each) is not None
            out = joined(logic, legs[name].on_result(each, case.outcomes[name]))
            assert len(out) == (left == len(asked))
        digests.append(digest(case, out[0]))
    golden = "".join(GOLDEN.read_text(encoding="utf-8").split())
    assert len(golden) == 8 * CASES == 8 * len(digests)
    assert [number for number, each in enumerate(digests) if golden[8 * number : 8 * number + 8] != each] == []


def searched(offset: int, **event: Any) -> InFlight:
    """A query whose searches are written, for two legs if it has a text."""
    asked = query(offset, **{"vector": [1.0, 0.0, 0.0], **event})
    asked.retrieval.terms = SparseVector([7], [1.0]) if asked.asked.text is not None else None
    return SEARCHES(asked)


def test_queries_leave_in_the_order_of_their_last_leg() -> None:
    """Whichever came first: what counts is when nothing is missing any more."""
    first, second, third = (searched(offset) for offset in range(3))
    logic = Fusion()
    assert joined(logic, first, second) == []
    assert joined(logic, third, second, third) == [second, third]
    assert joined(logic, first) == [first]


def test_what_passes_by_does_not_wait() -> None:
    """Answered and rejected items have no leg to wait for, and nothing is done to them."""
    answered, rejected = query(1), Rejected(message(offset=2), DeadLetterClass.INVALID, "decode", "why")
    answered.answered = True
    assert joined(Fusion(), answered, rejected) == [answered, rejected]
    assert answered.outcome.legs == {}


def test_a_defect_rejects_one_query_and_leaves_the_others() -> None:
    """The dead letter names the step in which it occurred."""
    broken, fine = searched(1), searched(2)
    broken.asked = replace(broken.asked, plan=NOBODY)
    left = joined(Fusion(), broken, fine, broken, fine)
    assert left[1:] == [fine]
    assert (left[0].kind, left[0].stage) == (DeadLetterClass.INTERNAL, "fuse")


@dataclass(frozen=True)
class Scripted(SearchLeg):
    """A leg that answers after some seconds, or not in time, and notes for whom it was asked."""

    seconds: float = 0.0
    heard: list[int] = field(default_factory=list)

    async def call(self, batch_key: BatchKey, requests: Sequence[Any], timeout: float) -> list[Found | BackendError]:
        """Wait, and find one document each."""
        self.heard.append(len(requests))
        await asyncio.sleep(self.seconds)
        return [Found(Hits([self.name], [1.0], [{"namespace": "public"}]), [1]) for _ in requests]


def through(asked: Sequence[InFlight | Rejected], *legs: SearchLeg) -> list[list[Any]]:
    """The batches that leave a flow of these legs."""

    def branches(up: Batches, calls: EventLoopThread) -> Batches:
        written = sync_stage("searches", up, SEARCHES, "retrieve")
        built = [async_stage(f"leg_{each.name}", written, each, calls) for each in legs]
        return fuse("fuse", pass_by("passing_by", written), *built)

    with looping() as calls:
        return flowed([list(asked)], lambda up: branches(up, calls))


def scripted(name: str, seconds: float = 0.0) -> Scripted:
    """Such a leg."""
    return Scripted(name, NOBODY, Bounds(30, 64, 8), seconds=seconds)


def test_each_leg_is_asked_for_what_it_is_wanted_for_alone() -> None:
    """Through the engine: a query leaves once, with each leg that its recipe asks for, and no leg asks for others."""
    both, own = query(0, vector=[1.0, 0.0, 0.0]), query(1, text=None, subject="s")
    both.retrieval.terms = None
    vector, keyword, structured = scripted("vector"), scripted("keyword"), scripted("structured", 0.05)
    passing = Rejected(message(offset=2), DeadLetterClass.INVALID, "decode", "why")
    batches = through([both, own, passing], vector, keyword, structured)
    assert sorted(id(item) for batch in batches for item in batch) == sorted(map(id, (both, own, passing)))
    assert (vector.heard, keyword.heard, structured.heard) == ([1], [], [1])
    assert [candidate.id for candidate in both.outcome.candidates] == ["vector"]
    assert [candidate.id for candidate in own.outcome.candidates] == ["structured"]


def test_a_late_leg_holds_nobody_beyond_its_deadline() -> None:
    """Its query leaves with what the others found, and says what was late; others are not kept by it."""
    late, quick = query(0, vector=[1.0, 0.0, 0.0]), query(1, text=None, subject="s")
    late.deadline = time.monotonic() + 3
    batches = through([late, quick], scripted("vector", 60.0), scripted("structured"))
    assert [item for batch in batches for item in batch] == [quick, late]
    assert late.outcome.degraded == [("vector", Reason.DEADLINE)]
    assert isinstance(BackendTimeout("late"), BackendError)


def test_a_leg_that_is_not_built_is_skipped() -> None:
    """Context legs have no branch if no collection had contexts at the start; the query says so, and does not wait."""
    asked = query(0, vector=[1.0, 0.0, 0.0], recipe="conversation")
    asked.retrieval.capabilities = capable(dense_context=True)
    written = Searches(SEARCHES.bodies, frozenset(LEG_SPECS) - {"vector_context"})(asked)
    assert written.retrieval.searches is not None
    assert "vector_context" not in written.retrieval.searches
    written.retrieval.found = {"vector": Found(Hits([], [], []))}
    joined(Fusion(), written)
    assert written.outcome.legs["vector_context"].reason is Reason.NO_CONTEXT
    assert not written.answered


def test_the_engine_is_woken_for_the_last_leg_alone() -> None:
    """Nothing can be done for a query before."""
    asked = searched(0, vector=[1.0, 0.0, 0.0])
    asked.retrieval.legs_left = 2
    assert [leg(name).wakes(asked) for name in ("keyword", "vector")] == [False, True]


def test_hits_of_one_score_go_by_the_ids_of_their_documents() -> None:
    """In whatever order the index gives them, and whatever the ids of their points: the ids decide every rank."""
    names = {f"point-{number}": name for number, name in enumerate(("n11", "n05", "n23", "n17", "n02"))}
    hits = Hits([*names], [0.5] * len(names), [{"id": name, "namespace": "public"} for name in names.values()])
    for recipe in ("vector", "rrf", "hybrid", "signals", "distance"):
        asked, stage = searched(0, recipe=recipe, text=None, vector=[1.0, 0.0, 0.0]), leg("vector")
        assert stage.request(asked)
        [found] = joined(Fusion(), stage.on_result(asked, Found(hits)))
        fused = found.outcome
        assert [each.document for each in fused.candidates] == sorted(names.values())
        assert [names[id_] for id_ in fused.legs["vector"].ids] == sorted(names.values())
