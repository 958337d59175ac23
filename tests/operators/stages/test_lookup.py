"""Lookup: who is answered by what is kept, who waits for whom, and who computes anew."""

import gc
import random
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from operators.caching.bounded import ExactCache
from operators.caching.keys import state
from operators.delivery.table_reader import WatermarkReader
from operators.query.backend_answers import Embedding
from operators.query.cursor import Cursor, PoolSlice
from operators.query.in_flight import InFlight
from operators.query.outcome import Answer, Results
from operators.query.result import records_of
from operators.ranking.candidate import Candidate
from operators.ranking.grouping import Grouping
from operators.stages.answers import Answers
from operators.stages.lookup import Lookup
from operators.text.dates import TemporalExpression
from schemas.document import EXPIRES
from schemas.errors import Reason
from tests.operators.samples import CURSORS, DIMENSION, answers, bound, query

ROOT = Path(__file__).parents[3]

MARK = ("0:7",)
EVENT = {"status": "ok", "results": [], "warnings": [], "provenance": {}}
ANSWER = Answer(EVENT, 0.0)


def asked(offset: int, **event: Any) -> InFlight:
    """A query with an embedding."""
    made = query(offset, **event)
    made.retrieval.embedding = Embedding(np.ones(DIMENSION, np.float32))
    return made


def semantically(kept: Answers, offset: int, **event: Any) -> InFlight:
    """A query that only the semantic cache may answer, once it has been looked up there."""
    return kept.semantic_lookup(kept.look_up(asked(offset, **event, profile="deep"), MARK))


def test_an_identical_query_waits_for_the_first() -> None:
    """It goes no further; what differs in anything leads itself."""
    kept = answers()
    first, second = kept.look_up(asked(0), MARK), asked(1)
    second.deadline = first.deadline + 0.1
    assert not kept.look_up(second, MARK).cache.leads
    assert first.cache.leads
    assert first.cache.waiters == [second]
    assert kept.look_up(asked(2, limit=3), MARK).cache.leads
    assert kept.look_up(asked(3), ("0:8",)).cache.leads
    assert kept.finish(first.message.origin) == [second]


def test_nobody_waits_for_one_that_has_little_time() -> None:
    """The patient query takes over the lead; those that waited before are answered all the same, each once."""
    kept = answers()
    hasty = kept.look_up(asked(0, timeout_ms=1000), MARK)
    waiting = kept.look_up(asked(1, timeout_ms=1000), MARK)
    patient = kept.look_up(asked(2, timeout_ms=30_000), MARK)
    later = kept.look_up(asked(3, timeout_ms=30_000), MARK)
    assert [each.cache.leads for each in (hasty, waiting, patient, later)] == [True, False, True, False]
    assert kept.finish(hasty.message.origin) == [waiting]
    assert not kept.look_up(asked(4, timeout_ms=30_000), MARK).cache.leads
    assert len(kept.finish(patient.message.origin)) == 2
    assert not kept.leading


def test_nobody_waits_for_one_that_has_much_more_time() -> None:
    """Its answer may come when the query's own time is over; a little more is no matter."""
    for timeout_ms, leads in ((1050, False), (1200, True)):
        kept = answers()
        kept.look_up(asked(0, timeout_ms=timeout_ms), MARK)
        assert kept.look_up(asked(1, timeout_ms=1000), MARK).cache.leads is leads


def test_nobody_waits_for_documents_that_have_expired(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer under way serves no query that comes after the end of a document that it has fetched."""
    ends = round(time.time()) + 1000
    for now, leads in ((ends - 1, False), (ends, True)):
        kept = answers()
        kept.look_up(asked(0), MARK).outcome.payloads = {"a": {EXPIRES: ends * 1000}}
        second = asked(1)
        with monkeypatch.context() as clock:
            clock.setattr(time, "time", lambda now=now: now)
            assert kept.look_up(second, MARK).cache.leads is leads


def test_a_page_from_which_a_document_has_gone_is_not_kept() -> None:
    """A document that expires between search and fetch leaves its page short, and no watermark tells that later."""
    for gone in (set(), {"a"}):
        kept = answers()
        first = kept.look_up(asked(0), MARK)
        first.outcome.results = Results([Candidate(id_, 1.0, {}) for id_ in "ab"], gone=gone)
        kept.put(first, ANSWER)
        kept.finish(first.message.origin)
        assert (kept.look_up(asked(1), MARK).cache.cached is None) is bool(gone)


def test_a_continued_page_shares_nothing_with_a_strict_one() -> None:
    """Of a cursor whose state is not known: the one leaves out what was given, the other counts."""
    kept = answers()
    cursor = CURSORS.write(Cursor(bound(asked(0)), None, asked(0).asked.now, PoolSlice(5, 100), (b"abcd",)))
    strict = kept.look_up(asked(1, cursor=cursor), MARK)
    continued = kept.look_up(asked(2, cursor=cursor, cursor_policy="continue"), MARK)
    assert continued.cache.leads
    assert strict.cache.waiters == []


def test_a_continued_page_leaves_out_what_was_given_where_nothing_seems_to_have_changed() -> None:
    """The index changes before its watermark does: a page by count alone could repeat a result that moved down."""
    kept = answers()
    same = state(kept.look_up(asked(0), MARK).cache.scope)
    cursor = CURSORS.write(Cursor(bound(asked(0)), same, asked(0).asked.now, PoolSlice(5, 100), (b"abcd",)))
    strict = kept.look_up(asked(1, cursor=cursor), MARK)
    continued = kept.look_up(asked(2, cursor=cursor, cursor_policy="continue"), MARK)
    assert strict.asked.given == frozenset()
    assert continued.asked.given == {b"abcd"}
    assert continued.outcome.warnings == []


def test_answers_by_another_analyser_are_no_answers() -> None:
    """An answer by configured parameters isn't served once the collection's own are read, nor its pages."""
    kept = answers()
    first = asked(0)
    first.retrieval.analyser = "guessed"
    kept.put(kept.look_up(first, MARK), ANSWER)
    kept.finish(first.message.origin)
    for analyser, served in (("read", False), ("guessed", True)):
        later = asked(1)
        later.retrieval.analyser = analyser
        assert (kept.look_up(later, MARK).cache.cached is not None) is served
    assert state(replace(first.cache.scope, analyser="read")) != state(first.cache.scope)


def test_without_a_watermark_nothing_is_shared() -> None:
    """Neither kept nor waited for, whether it isn't known or there is none."""
    for watermark in (None, ()):
        kept = answers()
        assert all(kept.look_up(asked(offset), watermark).cache.leads for offset in range(2))
        assert not kept.leading


def test_a_new_era_forgets_everything() -> None:
    """A new generation drops cached answers and those under way: the same watermark may be another's."""
    kept = answers()
    first = kept.look_up(asked(0), MARK)
    kept.put(first, ANSWER)
    under_way = kept.look_up(asked(1, limit=3), MARK)
    assert kept.look_up(asked(2), MARK).answered
    assert not kept.look_up(asked(3), MARK, generation=1).answered
    assert kept.look_up(asked(4, limit=3), MARK, generation=1).cache.leads
    kept.put(under_way, ANSWER)
    assert not kept.look_up(asked(5, limit=3), MARK, generation=1).answered
    assert kept.finish(under_way.message.origin) == []


def test_a_watermark_of_the_era_before_shares_nothing() -> None:
    """Read before it went back, it says nothing of what there is now: the query is computed, and not kept."""
    kept = answers()
    kept.put(kept.look_up(asked(0), MARK, generation=1), ANSWER)
    late = kept.look_up(asked(1), MARK)
    assert not late.answered
    assert late.cache.leads
    kept.put(late, ANSWER)
    assert not kept.look_up(asked(2, limit=3), MARK).answered
    assert kept.look_up(asked(3), MARK, generation=1).answered


def test_vectors_of_different_kinds_share_no_answer() -> None:
    """An embedded text's answer, a bare vector's, and that of both: each was found and ranked by something else."""
    own = [1.0] * DIMENSION
    kinds: list[dict[str, Any]] = [
        {"text": "a story"},
        {"text": None, "vector": own},
        {"text": "a story", "vector": own},
    ]
    for first in kinds:
        kept = answers()
        kept.put(semantically(kept, 0, **first), ANSWER)
        assert [semantically(kept, 1, **kind).answered for kind in kinds] == [kind is first for kind in kinds]


def test_words_decide_beside_the_vector() -> None:
    """With equal vectors a paraphrase is served, and another question isn't, whichever was answered last."""
    kept = answers()
    for offset, text in enumerate(("what does error code E1234 mean", "what does error code E1235 mean")):
        kept.put(semantically(kept, offset, text=text), ANSWER)
    paraphrase = semantically(kept, 2, text="Please, what does error code E1234 mean?")
    assert told(paraphrase) == "what does error code E1234 mean"
    assert not semantically(kept, 3, text="what does error code E1236 mean").answered


def test_a_vector_of_ones_own_is_served_to_itself_alone() -> None:
    """To the same direction of any length, and beside the same text; near vectors may be of any two questions."""
    own, longer, near = [1.0, 0.5, 0.25], [3.3, 1.65, 0.825], [1.0, 0.5, 0.26]
    for text, other in ((None, "a story"), ("a story", "Please, a story")):
        kept = answers()
        kept.put(semantically(kept, 0, text=text, vector=own), ANSWER)
        assert told(semantically(kept, 1, text=text, vector=longer)) == text
        for changed in ({"text": text, "vector": near}, {"text": other, "vector": own}):
            assert not semantically(kept, 2, **changed).answered


def told(query: InFlight) -> Any:
    """The text of the query that the answer was computed for, as the answer says it."""
    assert query.cache.cached is not None
    return query.cache.cached.event["provenance"]["asked"]


def test_only_what_is_whole_and_computed_is_kept() -> None:
    """No partial answer, none of which something was removed, and none that came from a cache itself."""
    for event, removed in (({**EVENT, "status": "partial"}, set()), (EVENT, {"x"})):
        kept = answers()
        first = kept.look_up(asked(0), MARK)
        first.outcome.removed = removed
        kept.put(first, Answer(event, 0.0))
        assert not kept.look_up(asked(1), MARK).answered


def test_who_is_recalled() -> None:
    """A query by another's vector; not one that names a time, however that was read, lost something or is warned."""
    kept = answers()
    kept.put(kept.semantic_lookup(kept.look_up(asked(0, text="a story"), MARK)), ANSWER)
    others = [asked(offset, text="A story?") for offset in range(1, 6)]
    plain, read, lost, warned, dated = (kept.look_up(each, MARK) for each in others)
    read.retrieval.temporal_expression = TemporalExpression(3, 2)
    lost.outcome.degraded.append(("temporal_expression", Reason.TIMEOUT))
    warned.outcome.warnings.append("so")
    dated.asked = replace(dated.asked, text="a story of yesterday")
    recalled = [kept.semantic_lookup(each) for each in (plain, read, lost, warned, dated)]
    assert [each.answered for each in recalled] == [True] + [False] * 4
    assert [each.cache.likeness is None for each in recalled] == [False] + [True] * 4


def resident() -> int:
    """The bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def taken() -> float:
    """The memory that a full cache of answers adds to the process, as a multiple of what it counts."""
    exact = ExactCache(1 << 24, 3600.0)
    kept = answers(exact=exact)
    sizes = random.Random(1)
    gc.collect()
    before = resident()
    for offset in range(9000):
        asked = kept.look_up(query(offset, text=f"text {offset}"), MARK)
        kept.put(asked, Answer({**EVENT, "results": [{"text": "x" * sizes.randrange(200, 8000)}]}, 0.0))
        kept.finish(asked.message.origin)
    return (resident() - before) / exact.size


@pytest.mark.slow
def test_kept_answers_take_what_is_counted() -> None:
    """In a process of its own, whose memory nothing else has used: a full cache is not several times its size."""
    command = [sys.executable, "-c", "from tests.operators.stages.test_lookup import taken; print(taken())"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.6


@dataclass
class Reader:
    """The watermarks of a topic, in which no namespace has one yet."""

    reached: bool
    behind: bool = False
    generation: int = 0

    async def caught_up(self, timeout: float) -> None:
        """Nothing waits here."""

    def read_since(self, moment: float) -> bool:
        """As far as was said."""
        return self.reached

    def of(self, collection: str, namespace: str) -> tuple[str, ...]:
        """None."""
        return ()


@pytest.mark.parametrize(("reached", "known"), [(True, ()), (False, None)])
def test_no_watermark_is_known_only_where_the_topic_is_read(reached: bool, known: tuple[str, ...] | None) -> None:
    """Before, it is not known: a cursor of such an answer must not expire when the first watermark is read."""
    lookup = Lookup(answers(), cast("WatermarkReader", Reader(reached)), 1.0)
    waiting = asked(0)
    assert lookup.request(waiting) is None
    lookup.on_unasked(waiting)
    assert waiting.cache.scope.watermark == known


def test_a_cached_answer_with_a_forbidden_document_in_a_group_is_none() -> None:
    """The check reads all documents of groups: one that the query may not see makes the answer as good as none,
    also where `return.fields` leaves out what is judged.
    """
    for namespace, served in (("public", True), ("acme", False)):
        kept = answers()
        first = kept.look_up(asked(0, group_by="subject"), MARK)
        outcome = first.outcome
        candidates = [Candidate("a", 0.5, {"subject": "k"}), Candidate("b", 0.4, {"subject": "k"})]
        outcome.results = Results(candidates, Grouping("subject", 2, "max"))
        outcome.payloads = {"a": {"namespace": "public"}, "b": {"namespace": namespace}}
        records = records_of(outcome.candidates, outcome, None)
        assert records == [{"namespace": "public"}, {"namespace": namespace}]
        kept.put(first, replace(ANSWER, records=records))
        kept.finish(first.message.origin)
        assert kept.look_up(asked(1, group_by="subject"), MARK).answered == served


def test_a_cached_group_ends_with_the_first_document_that_it_counts() -> None:
    """A document that is counted and scored within a group, and not returned, expires there, too."""
    for expires, served in ((1, False), (2**50, True)):
        kept = answers()
        first = kept.look_up(asked(0, group_by="subject"), MARK)
        payloads: list[dict[str, Any]] = [{"subject": "k"}, {"subject": "k", EXPIRES: expires}]
        candidates = [Candidate(id_, 1.0, payload) for id_, payload in zip("ab", payloads, strict=True)]
        first.outcome.results = Results(candidates, first.asked.plan.grouping)
        first.outcome.payloads = {"a": payloads[0]}
        kept.put(first, ANSWER)
        kept.finish(first.message.origin)
        assert kept.look_up(asked(1, group_by="subject"), MARK).answered == served


@pytest.mark.parametrize("expires", [True, False])
def test_counts_of_documents_that_expire_are_not_kept(expires: bool) -> None:
    """Which documents were counted is not known, and so not how long the counts hold."""
    kept = answers()
    queries = [asked(number, facets=[{"field": "subject"}]) for number in range(2)]
    for each in queries:
        each.retrieval.capabilities = replace(each.retrieval.capabilities, expires=expires)
    first = kept.look_up(queries[0], MARK)
    kept.put(first, ANSWER)
    kept.finish(first.message.origin)
    assert kept.look_up(queries[1], MARK).answered is not expires
