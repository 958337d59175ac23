"""Evaluating: in which ways queries are asked, and what they are asked for."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from flows.cli.evaluate.command import figures_table, group_tables, separation_table
from flows.cli.evaluate.evaluation import (
    DEPTH,
    TIMEOUT_MS,
    AnswerCounts,
    ReportRow,
    Variant,
    events,
    groups,
    make_row,
    read_judgements,
    variants,
)
from flows.cli.evaluate.sources import Given
from operators.evaluation.metrics import separate
from operators.query.plan import Planner
from schemas.errors import ConfigError, DeadLetterClass, InputError
from schemas.event import validate
from schemas.query import QueryEvent
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import Profile
from schemas.settings.ranking import PROFILES


def names(found: list[Variant]) -> list[str]:
    """The names of the ways."""
    return [variant.name for variant in found]


def written(directory: Path, name: str, text: str) -> str:
    """A file of that name."""
    path = directory / name
    path.write_text(text)
    return str(path)


def asked(directory: Path, *lines: Any, **more: Any) -> list[dict[str, Any]]:
    """The events of a file with these lines."""
    content = b"\n".join(line if isinstance(line, bytes) else orjson.dumps(line) for line in lines)
    path = directory / "queries.jsonl"
    path.write_bytes(content)
    return list(events(path, **more))


# Lost answers


def test_lost_answers_are_counted_by_status_and_stage() -> None:
    """An answer that lost a stage twice counts once for it; whole answers are nothing to say."""
    tally = AnswerCounts()
    tally.count({"status": "ok", "degraded": []})
    assert tally.describe_lost("hybrid") is None
    lost = [{"stage": "rerank", "reason": "timeout"}, {"stage": "vector", "reason": "timeout"}]
    for result in ({"status": "partial", "degraded": lost}, {"status": "unranked", "degraded": [*lost[:1] * 2]}):
        tally.count(result)
    tally.count({"status": "expired"})
    said = "hybrid: 3 of 4 answers are not whole (1 expired, 1 partial, 1 unranked)"
    stages = "; rerank was lost 2 times; vector was lost 1 times"
    assert tally.describe_lost("hybrid") == said + stages


def test_the_first_refusal_is_said() -> None:
    """With its query and the reason: a file whose queries have no `text` has no other fault."""
    tally = AnswerCounts()
    for query in ("q1", "q2"):
        tally.count({"query_id": query, "status": "invalid", "error": {"reason": f"{query}: text must be given"}})
    tally.count({"query_id": "q3", "status": "denied", "denied": {"reason": "not a field of yours"}})
    assert tally.describe_lost("rrf") == (
        "rrf: 3 of 3 answers are not whole (1 denied, such as query q3: not a field of yours,"
        " 2 invalid, such as query q1: q1: text must be given)"
    )


# Ways


def test_each_recipe_is_asked_without_and_with_the_reranker() -> None:
    """In the order in which the recipes are named; a recipe that lists no model is asked once."""
    found = variants(["hybrid", "signals", "rrf"], stages=False)
    assert names(found) == ["hybrid", "hybrid+rerank", "signals", "rrf", "rrf+rerank"]
    assert [(variant.recipe, variant.rerank) for variant in found] == [
        (SHIPPED["hybrid"], False),
        (SHIPPED["hybrid"], True),
        (SHIPPED["signals"], False),
        (SHIPPED["rrf"], False),
        (SHIPPED["rrf"], True),
    ]


def test_a_recipe_in_a_file_is_one(tmp_path: Path) -> None:
    """By its file's name; what is neither a recipe nor a file is an error."""
    mine = written(tmp_path, "mine.yaml", "stages: [{score: {alpha: 0.3}}]\n")
    (plain,) = variants([mine], stages=False)
    assert plain.recipe == Recipe.parse("mine", {"stages": [{"score": {"alpha": 0.3}}]})
    with pytest.raises(ConfigError, match="hybird"):
        variants(["hybrid", "hybird"], stages=False)


def test_recipes_alone_are_a_configuration_for_documents(tmp_path: Path) -> None:
    """A section as the console writes it is enough where no configured index is searched, and only there."""
    config = Path(written(tmp_path, "part.yaml", "recipes: {mine: {stages: [{vector: {}}]}}"))
    files = tmp_path / "qrels", tmp_path / "queries.jsonl"
    assert "mine" in Given(*files, tmp_path / "documents.jsonl", None, config, None).named_recipes
    with pytest.raises(ConfigError, match="qdrant: missing"):
        Given(*files, None, None, config, None)


def test_documents_of_any_form_are_searched_as_init_decides(tmp_path: Path) -> None:
    """Those in rankstream's own form, too: a part number that stands in a field alone is searched."""
    rows = [{"id": str(n), "text": f"A drill of the series {n}.", "mpn": f"DR-{n}70/{n}"} for n in range(12)]
    (tmp_path / "documents.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    given = Given(tmp_path / "qrels", tmp_path / "queries.jsonl", tmp_path / "documents.jsonl", None, None, None)
    assert given.settings is not None
    assert "mpn" in given.settings.qdrant.search_fields


def test_a_recipe_named_twice_is_asked_once() -> None:
    """Nothing is measured twice."""
    assert names(variants(["rrf", "hybrid", "rrf"], stages=False)) == ["rrf", "rrf+rerank", "hybrid", "hybrid+rerank"]


def test_a_recipes_beginnings_come_before_it() -> None:
    """With stages there is a row for each beginning, without the reranker; stages that are off are none."""
    assert names(variants(["composite"], stages=True)) == [
        "score",
        "score > coverage",
        "score > coverage > composite",
        "score > coverage > composite > temporal",
        "score > coverage > composite > temporal > dedupe",
        "composite",
        "composite+rerank",
    ]
    assert names(variants(["distance"], stages=True)) == [
        "linear",
        "linear > weibull_decay",
        "linear > weibull_decay > keyword_boost",
        "distance",
    ]
    assert names(variants(["decay"], stages=True)) == ["decay: decay", "decay"]


def test_a_beginning_is_the_recipe_without_its_later_stages(tmp_path: Path) -> None:
    """Each has the parameters that the recipe gives its stages, and its bound on distance."""
    stages = (
        "[{score: {alpha: 0.1}}, {keyword_boost: {enabled: true, weight: 0.5}}, {importance_boost: {enabled: true}}]"
    )
    mine = written(tmp_path, "mine.yaml", f"stages: {stages}\nmax_distance: 0.9\n")
    first, second, *_ = (variant.recipe for variant in variants([mine], stages=True))
    alpha, boost = {"score": {"alpha": 0.1}}, {"keyword_boost": {"enabled": True, "weight": 0.5}}
    assert first.hash == Recipe.parse("x", {"stages": [alpha], "max_distance": 0.9}).hash
    assert second.hash == Recipe.parse("x", {"stages": [alpha, boost], "max_distance": 0.9}).hash


def test_beginnings_that_recipes_share_are_asked_once() -> None:
    """Two recipes that begin alike have one row for it."""
    found = names(variants(["hybrid", "composite", "distance"], stages=True))
    assert found.count("score") == 1
    assert len(found) == len(set(found))


def test_beginnings_that_differ_are_told_apart(tmp_path: Path) -> None:
    """Two recipes whose first stages have one name and other parameters have a row each, under names of their own."""
    mine = written(tmp_path, "mine.yaml", "stages: [{score: {alpha: 0.1}}, {dedupe: {limit: 50}}]\n")
    found = variants(["hybrid", mine], stages=True)
    hashes = {variant.recipe.hash for variant in found}
    for stages in ([{"score": {"fuzzy": 1.5, "normaliser": "theoretical"}}], [{"score": {"alpha": 0.1}}]):
        assert Recipe.parse("x", {"stages": stages}).hash in hashes
    assert Recipe.parse("x", {"stages": [{"score": {"alpha": 0.1}}, {"dedupe": {"limit": 50}}]}).hash in hashes
    assert len(names(found)) == len(set(names(found)))


# Events


def test_a_query_is_asked_for_deep_and_patiently(tmp_path: Path) -> None:
    """Every event asks for as many results as are judged, with time enough, and for what the caller wants of all."""
    given = {"query_id": "a", "text": "b", "limit": 3, "timeout_ms": 5, "recipe": "rrf", "namespace": "n"}
    (event,) = asked(tmp_path, given, recipe=SHIPPED["hybrid"], rerank=False)
    assert event == {
        "query_id": "a",
        "text": "b",
        "namespace": "n",
        "limit": DEPTH,
        "timeout_ms": TIMEOUT_MS,
        "recipe": "hybrid",
        "rerank": False,
        "metadata": {},
    }
    assert validate(QueryEvent, event).page_size == DEPTH


def test_a_query_is_asked_for_its_ranking_alone(tmp_path: Path) -> None:
    """A recorded query may have been the second page of another topic: what changes no ranking is left out."""
    ranked = {"query_id": "a", "text": "b", "group_by": "parent", "return": {"text": "none"}}
    unranked = {"cursor": "c", "reply_to": "t", "record": True, "explain": True, "debug": True}
    (event,) = asked(tmp_path, {**ranked, **unranked, "kind": "wish", "metadata": {"own": 1}})
    assert event == {**ranked, "metadata": {"own": 1, "kind": "wish"}, "limit": DEPTH, "timeout_ms": TIMEOUT_MS}


@pytest.mark.parametrize(
    "overrides",
    [
        {"score": {"alpha": 0.9}},
        {"rrf": {"k": 3}, "dedupe": {"limit": 7}},
        {"composite": {"quality": 0.3}, "max_distance": 0.5},
        {"mine": {"x": 1}},
    ],
)
@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_recipe_takes_the_overrides_of_its_stages(tmp_path: Path, overrides: dict[str, Any], name: str) -> None:
    """Queries that are asked and pools that are ranked have one plan: a recipe without the stage is its own."""
    given = {"query_id": "a", "text": "b", "overrides": overrides}
    (event,) = asked(tmp_path, given, recipe=SHIPPED[name])
    planner = Planner(PROFILES)

    def plan(by: dict[str, Any], recipe: Recipe | None) -> str:
        try:
            return planner.plan(validate(QueryEvent, by), "default", [], recipe=recipe).recipe.hash
        except InputError as error:
            return str(error)

    assert plan(event, None) == plan(given, SHIPPED[name])
    assert "no such stage" not in plan(event, None)


def test_columns_that_an_event_lacks_are_metadata(tmp_path: Path) -> None:
    """A query file's further fields travel with the query; blank lines are nothing; the order is the file's."""
    lines = [
        {"query_id": "b", "text": "x", "category": 2, "tags": ["t"]},
        b"",
        {"query_id": "a", "text": "y", "": None},
    ]
    found = asked(tmp_path, *lines)
    assert [(event["query_id"], event["metadata"]) for event in found] == [
        ("b", {"category": 2, "tags": ["t"]}),
        ("a", {"": None}),
    ]
    for event in found:
        validate(QueryEvent, event)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (b"{", DeadLetterClass.NOT_JSON),
        (b"[]", DeadLetterClass.INVALID),
        ({"text": "x"}, DeadLetterClass.INVALID),
        ({"query_id": 7, "text": "x"}, DeadLetterClass.INVALID),
        ({"query_id": None, "text": "x"}, DeadLetterClass.INVALID),
    ],
)
def test_a_line_that_is_no_query_is_named(tmp_path: Path, line: Any, kind: DeadLetterClass) -> None:
    """The error has the file and the line."""
    with pytest.raises(InputError, match=rf"{tmp_path}/queries\.jsonl:2: ") as caught:
        asked(tmp_path, {"query_id": "a", "text": "x"}, line)
    assert caught.value.kind is kind


def test_the_line_that_is_named_is_the_files(tmp_path: Path) -> None:
    """Blank lines count, as in an editor."""
    with pytest.raises(InputError, match=r"queries\.jsonl:3: query_id"):
        asked(tmp_path, {"query_id": "a", "text": "x"}, b"", {"text": "x"})


@pytest.mark.parametrize("second", [{"text": "x"}, {"text": "y"}, {"text": "x", "namespace": "n"}])
def test_a_query_id_is_one_querys(tmp_path: Path, second: dict[str, Any]) -> None:
    """The figures of the first would be those of the second: the error has both lines."""
    with pytest.raises(InputError, match=r"queries\.jsonl:3: query_id: line 1 has a, too"):
        asked(tmp_path, {"query_id": "a", "text": "x"}, {"query_id": "b", "text": "x"}, {"query_id": "a", **second})


# Figures


def test_judgements_are_trecs(tmp_path: Path) -> None:
    """Query, a column that nobody reads, document and grade; of the queries that are asked."""
    assert judged(tmp_path, "q1 0 a 1\nq1 0 b 0\nq2 0 a 3\nother 0 a 1\n") == {"q1": {"a": 1, "b": 0}, "q2": {"a": 3}}


def judged(directory: Path, qrels: str) -> Any:
    """The judgements on two queries and two documents."""
    (directory / "queries").write_text("\n".join(f'{{"query_id": "q{n}", "text": "t"}}' for n in (1, 2)))
    (directory / "documents").write_text("\n".join(f'{{"id": "{name}", "text": "t"}}' for name in "ab"))
    (directory / "qrels").write_text(qrels)
    return read_judgements(directory / "qrels", directory / "queries", directory / "documents")


PAGES = {**PROFILES, "balanced": PROFILES["balanced"].model_copy(update={"group_by": "page"})}


@pytest.mark.parametrize(
    ("asked", "profiles", "name"),
    [
        ({}, PROFILES, "a"),
        ({"group_by": "parent"}, PROFILES, "p"),
        ({"group_by": "absent"}, PROFILES, "a"),
        ({"group_by": "several"}, PROFILES, "a"),
        ({}, PAGES, "7"),
        ({"group_by": "parent"}, PAGES, "p"),
        ({"group_size": 0}, PAGES, "a"),
        ({"profile": "deep"}, PAGES, "a"),
        ({"text": None, "subject": "s"}, PAGES, "a"),
        ({"filters": 3}, PAGES, "a"),
    ],
)
def test_groups_are_judged_by_their_keys(
    tmp_path: Path, asked: dict[str, Any], profiles: dict[str, Profile], name: str
) -> None:
    """The qrels name the value of the field by which a query, or its profile, groups, and nothing else counts: the id
    only of a document that is a result of its own.
    """
    queries, documents, qrels = (tmp_path / each for each in ("queries", "documents", "qrels"))
    queries.write_bytes(orjson.dumps({"query_id": "q1", "text": "t", "group_size": 1, **asked}))
    documents.write_text('{"id": "a", "text": "t", "parent": "p", "page": 7, "several": ["p", "q"]}')
    for each in ("a", "p", "7", "q"):
        qrels.write_text(f"q1 0 {each} 1\n")
        if each == name:
            assert read_judgements(qrels, queries, documents, Planner(profiles)) == {"q1": {name: 1}}
            continue
        with pytest.raises(InputError, match="none of its 1 relevant documents") as caught:
            read_judgements(qrels, queries, documents, Planner(profiles))
        grouped = name in {"p", "7"} or "group_by" in asked
        assert ("results are grouped: judge values of" in str(caught.value)) == grouped


@pytest.mark.parametrize(
    ("qrels", "said"),
    [
        ("7 0 a 1\n8 0 a 1\n", "none of its 2 queries, such as 7, is in .*queries"),
        ("q1 0 z 1\nq1 0 a 0\n", "none of its 1 relevant documents, such as z, is in .*documents"),
        ("", "none of its 0 queries is in"),
    ],
)
def test_judgements_of_another_set_are_refused(tmp_path: Path, qrels: str, said: str) -> None:
    """Every figure would be 0: the error shows a name of theirs."""
    with pytest.raises(InputError, match=said):
        judged(tmp_path, qrels)


def test_a_threshold_a_way() -> None:
    """The second table has the area and the proposed threshold of each way whose queries are told apart."""
    found = separate([0.8, 0.6], [0.2])
    table = separation_table(
        [ReportRow("one", {}, AnswerCounts(), separation=found), ReportRow("other", {}, AnswerCounts())]
    )
    assert [list(column.cells) for column in table.columns] == [["one"], ["1.000"], ["0.600"], ["1.000"], ["1.000"]]


def test_a_row_a_way() -> None:
    """The table has each way's figures and how its queries were answered."""
    rows = [
        ReportRow("hybrid", {"any@5": 0.5, "MRR@10": 0.25}, AnswerCounts(Counter(ok=3, failed=1))),
        ReportRow("rrf", {"any@5": 1.0, "MRR@10": 0.125}, AnswerCounts(Counter(ok=4))),
    ]
    shown = figures_table(rows)
    assert [column.header for column in shown.columns] == ["recipe", "any@5", "MRR@10", "answers"]
    assert [list(column.cells) for column in shown.columns] == [
        ["hybrid", "rrf"],
        ["0.500", "1.000"],
        ["0.250", "0.125"],
        ["1 failed, 3 ok", "4 ok"],
    ]


def test_a_column_divides_the_figures(tmp_path: Path) -> None:
    """Each value has the means of its queries that have a relevant document, without the queries of no value."""
    path = tmp_path / "queries.jsonl"
    kinds = {"a": "part", "b": "wish", "c": "wish", "d": None, "e": "nothing"}
    path.write_text(
        "\n".join(f'{{"query_id": "{name}", "kind": {orjson.dumps(kind).decode()}}}' for name, kind in kinds.items())
    )
    grouped = groups(path, "kind")
    assert grouped == {"a": "part", "b": "wish", "c": "wish", "e": "nothing"}
    found = {query: [("x", 1.0)] for query in "abd"}
    row = make_row("rrf", found, AnswerCounts(), {query: {"x": 1} for query in "abcd"}, None)
    assert [(name, count, figures["any@1"]) for name, count, figures in row.split(grouped)] == [
        ("part", 1, 1.0),
        ("wish", 2, 0.5),
    ]
    (shown,) = group_tables([row], "kind", grouped)
    assert [list(column.cells) for column in shown.columns][:3] == [["part", "wish"], ["1", "2"], ["1.000", "0.500"]]
    assert shown.title == "rrf"
    with pytest.raises(InputError, match=r"queries\.jsonl: colour: no query has this column"):
        groups(path, "colour")


def test_two_recipes_of_one_name_are_an_error(tmp_path: Path) -> None:
    """A file named as a shipped recipe would take its row: it must be called otherwise, unless it is the same."""
    other = written(tmp_path, "hybrid.yaml", "stages: [rrf]\n")
    with pytest.raises(ConfigError, match="two recipes are called hybrid"):
        variants(["hybrid", other], stages=False)
    assert names(variants(["hybrid", "hybrid"], stages=False)) == ["hybrid", "hybrid+rerank"]
