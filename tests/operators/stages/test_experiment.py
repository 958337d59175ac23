"""Experiment: what only the other recipe needs never delays, spoils or changes an answer."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import orjson
import pytest
from structlog.testing import capture_logs

from operators.delivery.error_codes import RefusalCode
from operators.delivery.output_record import OutputRecord, RecordForm
from operators.experiments.impression import TokenCodec
from operators.experiments.team_draft import TeamDraft
from operators.query.backend_answers import Hits
from operators.query.cursor import CursorCodec, result_digests
from operators.query.in_flight import InFlight
from operators.query.plan import Planner
from operators.query.search import Found
from operators.ranking.run import ModelScores
from operators.runtime.dispatcher import Bounds
from operators.stages.experiment import (
    TRIAL,
    ExperimentAdmission,
    ExperimentFinaliser,
    Experimenting,
    ExperimentPublisher,
    ExperimentSearches,
    Trial,
    TrialLeg,
    trial_of,
)
from operators.stages.fuse import Fusion, complete_legs
from operators.stages.leg import count_branches
from operators.stages.rerank import rank
from operators.telemetry.metrics import FlowMetrics, Instruments
from schemas.errors import BackendError, BackendTimeout, Reason
from schemas.preference import PairedRankings
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import PolicySettings
from schemas.settings.ranking import PROFILES, Experiment
from tests.operators.samples import admission, answers, decoder, message, origin, output_record, searches, way_out

NOBODY: Any = None
SECRET: Final = b"sixteen characters, and more"
RECIPES: Final = {
    **SHIPPED,
    "hybrid": Recipe.parse("hybrid", {"stages": ["score", "rerank"]}),
    "other": Recipe.parse("other", {"stages": [{"score": {"alpha": 0.1}}, "rerank"]}),
    "listed": Recipe.parse("listed", {"stages": [{"score": {"weights": {"structured": 9.0}}}]}),
    "unreflected": Recipe.parse("unreflected", {"stages": ["score", {"reflections": {"include_reflections": False}}]}),
}
PLANNER: Final = Planner(PROFILES, RECIPES)
CURSORS: Final = CursorCodec(SECRET)
PUBLISHER: Final = ExperimentPublisher(way_out(), "minilm", CURSORS, tokens=TokenCodec(SECRET))
OWN: Final = {"vector": ("a", "b", "c", "d"), "keyword": ("d", "c")}
PAYLOADS: Final = {name: {"id": f"doc-{name}", "namespace": "public", "text": f"text {name}"} for name in "abcdef"}


def hits(*ids: str) -> Found:
    """The outcome of a leg with these hits, best first."""
    payloads: list[Mapping[str, Any]] = [{"id": f"doc-{id_}", "namespace": "public"} for id_ in ids]
    return Found(Hits([*ids], [1.0 - 0.1 * rank for rank in range(len(ids))], payloads))


def asked(
    tried: str,
    mode: str = "interleave",
    metrics: FlowMetrics | None = None,
    *,
    wrap: dict[str, Any] | None = None,
    headers: Any = (),
    **event: Any,
) -> InFlight:
    """A query that an experiment with this recipe has, with its searches written; `wrap`: the envelope around it."""
    counted = metrics if metrics is not None else FlowMetrics(Instruments(), "search")
    experiments = {"words": Experiment.model_validate({"recipe": tried, "share": 1, "mode": mode})}
    admit = ExperimentAdmission(admission(), experiments, PLANNER, PolicySettings(), counted)
    given = {"query_id": "q", "text": "some text", "vector": [1.0, 0.0, 0.0], "profile": "balanced", **event}
    whole = message(given if wrap is None else {**wrap, "data": given}, headers=headers)
    query = decoder(planner=PLANNER, cursors=CURSORS)(whole)
    return ExperimentSearches(searches())(admit(query))


def trial(query: InFlight) -> Trial:
    """The trial of a query, which must be in an experiment."""
    found = trial_of(query)
    assert found is not None
    return found


def leg_of_trials(name: str) -> TrialLeg:
    """The branch of a leg that only experiments ask."""
    return TrialLeg(f"{TRIAL}{name}", NOBODY, Bounds(30, 64, 8), name)


def ranked(
    query: InFlight,
    extra: Mapping[str, Found | BackendError] | None = None,
    own: Mapping[str, Sequence[str]] = OWN,
    scores: ModelScores | None = None,
) -> InFlight:
    """The query behind the experiment's stage; `extra` are the outcomes of the legs that only the other recipe asks."""
    for name, outcome in (extra or {}).items():
        assert leg_of_trials(name).on_result(query, outcome) is None
    query.retrieval.found = {name: hits(*ids) for name, ids in own.items()}
    query = complete_legs(query)
    query.outcome.rerank_scores = scores
    query = Experimenting(FlowMetrics(Instruments(), "search"))(rank(query))
    query.outcome.payloads = {**PAYLOADS}
    return query


def published(query: InFlight, publisher: ExperimentPublisher = PUBLISHER) -> tuple[dict[str, Any], list[OutputRecord]]:
    """The result's event, and all records of the query."""
    records = ExperimentFinaliser(publisher, answers(), "experiments")(query)
    assert records[0].value is not None
    return orjson.loads(records[0].value), records


def comparison(records: Sequence[OutputRecord]) -> PairedRankings:
    """The comparison beside the result."""
    [_, record] = records
    assert (record.topic, record.form) == ("experiments", RecordForm.COMPARISON)
    return PairedRankings.model_validate_json(record.value or b"")


def ids(query: InFlight) -> list[str]:
    """The candidates, best first."""
    return [each.id for each in query.outcome.candidates]


def plain() -> list[str]:
    """The order of the own recipe alone."""
    return ids(ranked(asked("other", "shadow")))


def test_a_leg_of_the_other_recipe_alone_is_asked_beside_the_others() -> None:
    """The query waits for its own legs, and no item comes out of the branch of the further one."""
    query = asked("listed")
    assert {*(query.retrieval.searches or ())} == {"vector", "keyword"}
    assert {*trial(query).searches} == {"structured"}
    assert count_branches(query) == 2
    leg = leg_of_trials("structured")
    assert (leg.takes(query), leg.wakes(query), leg.branch) == (True, False, True)
    assert leg.request(query) == (("trial_structured", "documents"), trial(query).searches["structured"])
    other = asked("listed", order_by={"field": "created_at", "direction": "asc"})
    assert (trial_of(other), leg.takes(other), leg.ask(other)) == (None, False, None)
    query.retrieval.found = {name: hits(*ids) for name, ids in OWN.items()}
    joined, legs = Fusion(), ([query], [query])
    assert [joined.on_batch([each])[0] for each in legs] == [[[]], [[query]]]


@pytest.mark.parametrize("extra", [None, BackendTimeout("late"), hits()._replace(lost=Reason.TIMEOUT)])
@pytest.mark.parametrize("mode", ["shadow", "interleave"])
def test_a_late_or_failed_leg_leaves_the_answer(mode: str, extra: Found | BackendError | None) -> None:
    """It is that of the own recipe: not degraded, no tokens. The record says which ranking lost a part, and compares
    nothing.
    """
    query = ranked(asked("listed", mode), {"structured": extra} if extra is not None else None)
    event, records = published(query)
    assert (ids(query), event["status"], event["degraded"]) == (plain(), "ok", [])
    assert not [hit for hit in event["results"] if "token" in hit]
    found = comparison(records)
    assert (found.incomplete, found.a, found.b, found.page) == (["b"], [], [], [])


def test_a_lost_part_of_the_answer_ends_the_trial() -> None:
    """A part that the own recipe lost is lost for both."""
    query = asked("other")
    query.lose("vector", Reason.TIMEOUT)
    event, records = published(ranked(query, own={"keyword": ("d", "c")}))
    assert (event["status"], comparison(records).incomplete) == ("partial", ["a", "b"])
    assert [hit["id"] for hit in event["results"]] == ["doc-d", "doc-c"]


@pytest.mark.parametrize(
    ("tried", "lost", "incomplete"),
    [
        ("other", "rerank", ["a", "b"]),
        ("listed", "rerank", ["a"]),
        ("keyword", "vector", ["a"]),
        ("keyword", "embed", ["a"]),
        ("vector", "embed", ["a", "b"]),
        ("keyword", "fetch", ["a", "b"]),
    ],
)
def test_what_the_own_recipe_alone_needs_is_no_loss_of_the_other(tried: str, lost: str, incomplete: list[str]) -> None:
    """A ranking is complete without what it does not need; what neither recipe names is a loss of both."""
    query = asked(tried)
    query.lose(lost, Reason.TIMEOUT)
    extra = {"structured": hits("e")} if tried == "listed" else None
    assert comparison(published(ranked(query, extra))[1]).incomplete == incomplete
    if extra is not None:
        query = asked(tried)
        query.lose(lost, Reason.TIMEOUT)
        assert comparison(published(ranked(query))[1]).incomplete == ["a", "b"]


@pytest.mark.parametrize("mode", ["shadow", "interleave"])
def test_what_is_lost_behind_the_ranking_is_lost_for_both(mode: str) -> None:
    """Users saw a page without its texts: neither ranking was complete, and nothing is compared."""
    query = ranked(asked("other", mode))
    query.lose("fetch", Reason.TIMEOUT)
    event, records = published(query)
    found = comparison(records)
    assert (event["status"], found.incomplete, found.a, found.page) == ("partial", ["a", "b"], [], [])


def test_a_query_that_ends_early_has_no_complete_ranking() -> None:
    """Such as one all of whose legs are lost, or that waited too long."""
    query = asked("other")
    query.outcome.failed = query.answered = True
    event, records = published(query)
    assert (event["status"], comparison(records).incomplete) == ("failed", ["a", "b"])


@pytest.mark.parametrize("mode", ["shadow", "interleave"])
@pytest.mark.parametrize("headers", [(), (("content-type", b"application/cloudevents+json"),)])
def test_a_comparison_lists_what_the_user_was_given(headers: Any, mode: str) -> None:
    """Of a result that was too large for its topic, the results that are left, in a CloudEvent, too."""
    wrap = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"} if headers else None
    whole = len(comparison(published(ranked(asked("other", mode, headers=headers, wrap=wrap)))[1]).page)
    seen = set()
    for limit in range(1500, 4500, 250):
        small = replace(PUBLISHER, way_out=way_out(max_bytes={"results": limit}))
        event, records = published(ranked(asked("other", mode, headers=headers, wrap=wrap)), small)
        if records[0].form is RecordForm.RESULT:
            results = event.get("data", event)["results"]
            assert [each.id for each in comparison(records).page] == [hit["id"] for hit in results]
            seen.add(len(results))
    assert {1, whole} <= seen


@pytest.mark.parametrize(("text", "kind"), [("lamp", "one word"), ("red lamp", "several words"), ("lamp?", "question")])
def test_a_comparison_says_the_kinds_of_its_query(text: str, kind: str) -> None:
    """By its recipe and by its text, which itself is not said of all namespaces."""
    found = comparison(published(ranked(asked("other", text=text)))[1])
    assert (found.kinds, found.text) == (["recipe hybrid", kind], None)


def test_the_further_leg_has_its_documents_in_the_mixed_list() -> None:
    """And in the report of the legs. The comparison goes with the result, of one origin and under its query's id."""
    query = ranked(asked("listed"), {"structured": hits("e", "f", "a")})
    event, records = published(query)
    assert {hit["id"] for hit in event["results"]} == {f"doc-{name}" for name in "abcdef"}
    assert [leg["candidates"] for leg in event["legs"] if leg["name"] == "structured"] == [3]
    result, told = records
    assert (told.key, told.origin) == (b"q", result.origin)
    found = comparison(records)
    assert found.incomplete == []
    assert [each.id for each in found.page] == [hit["id"] for hit in event["results"] if "token" in hit]
    assert (found.calls, found.b[0]) == (1, "doc-e")


def test_a_model_reads_nothing_for_the_other_recipe() -> None:
    """A document that it did not read follows behind; one that it left out as irrelevant is in neither list."""
    of_two = ModelScores({"a": 0.1, "d": 0.9}, 2, model="m")
    query = ranked(asked("other", "shadow"), scores=of_two)
    assert ids(query) == ["d", "a", "b", "c"]
    assert trial(query).b == ["doc-d", "doc-a", "doc-b", "doc-c"]
    assert trial(query).unread == 2
    judged = ModelScores({"a": 0.1, "d": 0.9}, 4, model="m")
    query = ranked(asked("other", "shadow"), scores=judged)
    assert (ids(query), trial(query).b) == (["d", "a"], ["doc-d", "doc-a"])


@pytest.mark.parametrize(
    ("recipe", "event"),
    [("other", {"recipe": "listed"}), ("documents", {}), ("vector", {"recipe": "keyword"})],
)
def test_a_recipe_that_needs_more_is_not_tried(recipe: str, event: dict[str, Any]) -> None:
    """A model's scores, vectors to compare, and a vector of the query are not asked for a second ranking. It counts."""
    metrics = FlowMetrics(Instruments(), "search")
    assert trial_of(asked(recipe, metrics=metrics, **event)) is None
    assert metrics.experiments["words", "interleave", "unfit"]._value.get() == 1


def test_a_recipe_that_needs_less_is_tried() -> None:
    """Such as one without a model, or with one leg."""
    for recipe in ("listed", "keyword", "vector"):
        assert trial_of(asked(recipe)) is not None


def later(extra: Mapping[str, Found], *, lost: bool = False, continued: bool = False) -> tuple[list[str], list[str]]:
    """The first two pages of a draft, by points; on the second the further leg may be lost.

    `continued`: the index has changed since, as far as the caches know.
    """
    first = ranked(asked("listed", limit=2), extra)
    given = ids(first)[:2]
    cursor = CURSORS.read(published(first)[0]["next_cursor"])
    assert TeamDraft.read(cursor.draft) == trial(first).draft
    cursor = replace(cursor, given=tuple(result_digests(*(f"doc-{name}" for name in given))))
    written = CURSORS.write(replace(cursor, position=replace(cursor.position, skip=len(given))))  # type: ignore[arg-type]
    query = asked("listed", query_id="another", limit=2, cursor=written)
    assert trial(query).draft == trial(first).draft
    if continued:
        query.continue_page()
    event, _ = published(ranked(query, None if lost else extra))
    return given, [hit["id"].removeprefix("doc-") for hit in event["results"]]


def test_a_later_page_goes_on_without_the_other_ranking() -> None:
    """If its leg is late, the page leaves out what was given, whichever of both rankings gave it."""
    further: Mapping[str, Found]
    for further in ({"structured": hits("e", "f", "a")}, {"structured": hits("c", "b")}):
        whole = ids(ranked(asked("listed"), further))
        assert later(further) == later(further, continued=True) == (whole[:2], whole[2:4])
        first, second = later(further, lost=True)
        assert first != plain()[:2]
        assert second == [name for name in plain() if name not in first][:2]


@pytest.mark.parametrize("event", [{"tried": "unreflected"}, {"tried": "distance", "limit": 100}])
def test_legs_are_shared_only_if_both_recipes_ask_the_same(event: dict[str, Any]) -> None:
    """With other documents, or more of them, each leg is asked for both; otherwise for both at once."""
    query = asked(**event)
    assert (trial(query).shared, {*trial(query).searches}) == (frozenset(), {"vector", "keyword"})
    assert trial(asked("other")).shared == {"vector", "keyword"}
    found = {name: hits(*names) for name, names in {"vector": ("e", "f"), "keyword": ("f",)}.items()}
    assert {*trial(ranked(query, found)).b} == {"doc-e", "doc-f"}
    assert {*ids(query)} == {*"abcdef"}
    assert [leg["candidates"] for leg in published(query)[0]["legs"]] == [4, 2]


@pytest.mark.parametrize("broken", ["fuse_legs", "PairedRankings"])
def test_a_defect_of_a_second_ranking_leaves_the_answer(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, with the query's place, and the result goes alone."""

    def fail(*_: object, **__: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(f"operators.stages.experiment.{broken}", fail)
    with capture_logs() as logs:
        event, records = published(ranked(asked("other", "shadow")))
    assert [f"doc-{name}" for name in plain()] == [hit["id"] for hit in event["results"]]
    assert [comparison(records).incomplete] == [["b"]] if broken == "fuse_legs" else len(records) == 1
    assert [(each["stage"], each["error"], each["offset"]) for each in logs[:1]] == [("experiment", "KeyError", 0)]


def test_a_topic_that_refuses_a_comparison_has_none() -> None:
    """The result goes alone, and no dead letter says otherwise."""
    result = output_record(1)
    told = replace(result, topic="experiments", form=RecordForm.COMPARISON)
    refused = {id(told): RefusalCode.MESSAGE_TOO_LARGE}
    assert way_out().fall_back([result, told], refused) == [result]


def test_a_query_that_no_experiment_has_is_left_as_it_is() -> None:
    """Its plan, its scope and its records are those of a flow without experiments."""
    query = asked("other", group_by="subject")
    before = query.cache.scope
    event, records = published(ranked(query))
    assert (query.cache.scope, len(records), records[0].origin) == (before, 1, origin())
    assert "experiment" not in event["provenance"]
