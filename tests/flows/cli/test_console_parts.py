"""The console's pure parts: shares of scores, fates of candidates, controls, written forms, judgements."""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from flows.cli.console.columns import (
    Column,
    ConsoleSearch,
    compare_columns,
    controls,
    shorten_overrides,
    write_forms,
)
from flows.cli.console.judgements import JudgementFile
from flows.cli.console.losses import explain_fate, to_view, trace
from flows.cli.console.runs import BatchRun, measure_batch
from flows.cli.console.waterfall import share_score, timeline, waterfall
from flows.cli.console.workbench import Configuration, TracedResults, Workbench
from flows.cli.evaluate.evaluation import read_judgements
from flows.cli.rank import PoolRanker
from operators.evaluation.metrics import parse_qrels
from operators.mapping.own_names import OwnNames
from schemas.errors import InputError
from schemas.recipes import SHIPPED, Recipe
from schemas.settings import load
from tests.flows.cli.browsing import workbench

NOW = 1_700_000_000.0
TEXTS = {"a": "the moon", "b": "the tide", "c": "The  Moon", "d": "bread", "e": "yeast", "f": "salt"}
RANKER = PoolRanker.of(None, None, explain=True)
_PLAIN: Final = {"qdrant": {"url": "http://127.0.0.1:9"}}


def pool(recipe: str, **asked: Any) -> bytes:
    """A pool of two legs; `c` has the content of `a`."""
    legs = {"vector": "abcde", "keyword": "cdaf"}
    hits = {
        name: [
            {"id": id_, "score": 1 - 0.15 * rank, "payload": {"text": TEXTS[id_], "title": "T"}}
            for rank, id_ in enumerate(ids)
        ]
        for name, ids in legs.items()
    }
    query = {"query_id": "q", "text": "moon", "recipe": recipe, "limit": 2, "explain": True, **asked}
    return orjson.dumps(
        {"query": query, "now": NOW, "legs": [{"name": name, "hits": each} for name, each in hits.items()]}
    )


@pytest.mark.parametrize("recipe", sorted(SHIPPED))
def test_the_parts_of_a_score_sum_to_it(recipe: str) -> None:
    """Whatever the recipe: the bar is as long as the score, and no part is longer than the bar."""
    for hit in RANKER(pool(recipe, limit=10))["results"]:
        parts = dict(share_score(hit["explanation"]))
        assert sum(parts.values()) == pytest.approx(hit["score"])
        assert all(value <= hit["score"] + 1e-9 for value in parts.values())
        assert waterfall(hit["explanation"])[-1]["end"] == pytest.approx(hit["score"])


def test_the_model_has_the_share_that_it_had() -> None:
    """Late interaction of one word has a seventh of its weight in `hybrid`, and of the bar no more than that."""
    said = {each["id"]: float(place) for place, each in enumerate(RANKER(pool("hybrid", limit=10))["results"])}
    asked = orjson.loads(pool("hybrid", limit=10)) | {"rerank": said, "measure": "similarity"}
    hits = RANKER(orjson.dumps(asked))["results"]
    parts = dict(share_score(max(hits, key=lambda hit: said[hit["id"]])["explanation"]))
    assert parts["rerank"] == pytest.approx(0.6 / 7)


@given(before=st.floats(0.01, 10), model=st.floats(0.0, 1.0), weight=st.floats(0.0, 1.0), added=st.floats(-0.005, 5))
def test_a_model_takes_its_share_of_all_parts(before: float, model: float, weight: float, added: float) -> None:
    """The parts before it stay in their proportion, and a later stage adds a part or makes all smaller."""
    legs = {
        name: {"rank": 0, "score": 1.0, "contribution": share * before} for name, share in (("v", 0.25), ("k", 0.75))
    }
    mixed = weight * model + (1 - weight) * before
    values = {"relevance": model, "weight": weight}
    stages = [
        {"stage": "score", "input": None, "output": before, "parameters": {}, "values": {}},
        {"stage": "rerank", "input": before, "output": mixed, "parameters": {"weight": 1.0}, "values": values},
        {"stage": "x", "input": mixed, "output": mixed + added, "parameters": {}, "values": {}},
    ]
    parts = dict(share_score({"legs": legs, "stages": stages}))
    assert sum(parts.values()) == pytest.approx(mixed + added, abs=1e-9)
    if "v" in parts and "k" in parts and parts["k"] > 1e-6:
        assert parts["k"] == pytest.approx(3 * parts["v"], rel=1e-6)


def test_every_candidate_has_a_fate() -> None:
    """Those on the page, those behind it, and a duplicate, which says of whom."""
    fates = trace(RANKER, RANKER.read_pool(pool("hybrid")))
    assert fates.by_id.keys() == TEXTS.keys()
    assert sorted(fate.rank for fate in fates.by_id.values() if fate.rank is not None) == [1, 2, 3, 4, 5]
    [lost] = [fate for fate in fates.by_id.values() if fate.rank is None]
    assert lost.lost_at == "dedupe"
    twin = {"a": "c", "c": "a"}[lost.id]
    said = explain_fate(lost, fates)["verdict"]
    assert said.endswith(f"it has the same content as {twin}, which stands before it.")
    assert [row["rank"] for row in to_view(fates)] == [3, 4, 5, None]


def test_a_threshold_and_a_leg_without_weight_are_named() -> None:
    """A candidate below min_relevance says its relevance; one that an unused leg found says which leg that is."""
    below = trace(RANKER, RANKER.read_pool(pool("hybrid", min_relevance=0.99)))
    dropped = [fate for fate in below.by_id.values() if fate.lost_at == "min_relevance"]
    assert dropped
    assert all(fate.relevance is not None and f"is {fate.relevance:.3f}" in fate.why for fate in dropped)
    alone = trace(RANKER, RANKER.read_pool(pool("vector")))
    fate = alone.by_id["f"]
    why = "only keyword found it, which the recipe gives no weight"
    assert (fate.rank, fate.lost_at, fate.why) == (None, "vector", why)


def test_columns_are_compared_with_the_first() -> None:
    """The moves are ranks upwards; what is alone says its rank in the other list, if it has one."""
    [found] = compare_columns([["a", "b", "c"], ["c", "a", "d"]], [{"a": 1, "b": 2, "c": 3, "d": 9}, {"c": 1, "b": 7}])
    assert found["moved"] == {"c": 2, "a": -1}
    assert found["only_first"] == {"b": 7}
    assert found["only_other"] == {"d": 9}
    assert found["jaccard"] == 0.5
    assert 0 < found["rbo"] < 1


@pytest.mark.parametrize("recipe", sorted(SHIPPED))
def test_every_parameter_has_a_control(recipe: str) -> None:
    """Each has a kind, a description and its value; the slider of a number holds its value."""
    made = SHIPPED[recipe]
    found = {stage["stage"]: {each["name"]: each for each in stage["parameters"]} for stage in controls(made)}
    assert found.keys() == {*made.parameters, ""}
    for stage, values in made.parameters.items():
        assert found[stage].keys() == values.keys()
        for name, value in values.items():
            control = found[stage][name]
            assert control["about"] or name == "weights" or control["kind"] == "choice", name
            if control["kind"] in {"number", "integer"} and value is not None:
                assert control["low"] <= value <= control["high"]


def test_a_changed_recipe_is_written_for_others() -> None:
    """The YAML is a section that makes the same recipe; the producer's event is the query event."""
    plain = SHIPPED["hybrid"]
    overrides: dict[str, Any] = {"coverage": {"weight": 2.5}, "rerank": {"weight": 0.6}}
    changed = plain.overridden(overrides)
    assert shorten_overrides(plain, overrides) == {"coverage": {"weight": 2.5}}
    event = {"query_id": "q-1", "text": 'a "moon"', "overrides": {"coverage": {"weight": 2.5}}, "rerank": True}
    forms = write_forms(changed, event, load(None, _PLAIN))
    section = yaml.safe_load(forms["yaml"])["recipes"]
    assert Recipe.parse("hybrid", section["hybrid"]).hash == changed.hash
    assert orjson.loads(forms["event"]) == event
    [literal] = [node.value for node in ast.walk(ast.parse(forms["producer"])) if isinstance(node, ast.Assign)][:1]
    assert ast.literal_eval(literal) == event


def test_the_written_configuration_ranks_as_the_page_did() -> None:
    """A recipe, a threshold and a model that the page turned off reach queries that name only the profile."""
    settings = load(None, _PLAIN)
    column = {"profile": "deep", "rerank": False, "min_relevance": 0.25}
    text = write_forms(SHIPPED["keyword"], {"query_id": "q-1", "text": "moon", **column}, settings)["yaml"]
    written = load(None, {**_PLAIN, **yaml.safe_load(text)})
    deep = written.profiles["deep"]
    assert (deep.recipe, deep.rerank_top, deep.min_relevance) == ("keyword", 0, 0.25)
    assert deep.over_sample == settings.profiles["deep"].over_sample
    same = write_forms(SHIPPED["hybrid"], {"query_id": "q-1", "text": "moon"}, settings)["yaml"]
    assert "profiles" not in yaml.safe_load(same)


def test_a_change_of_weights_drops_no_candidate(tmp_path: Path) -> None:
    """Candidates that the model has not read stay behind those that it has."""
    asked = orjson.loads(pool("hybrid")) | {"rerank": {"a": 0.9, "b": 0.4}, "reranked_candidates": 2}
    line = orjson.dumps(asked)
    bench = workbench(tmp_path, lambda _: TracedResults([{**RANKER(line), "pool": asked}], None))
    [column] = bench.search(ConsoleSearch.model_validate({"text": "moon", "columns": [{"recipe": "hybrid"}]}))[
        "columns"
    ]
    overrides: dict[str, Any] = {"score": {"weights": {"vector": 0.1, "keyword": 3.0}}}
    bench.rank(column["key"], Column(recipe="hybrid", overrides=overrides))
    ranks = {each: bench.why(column["key"], each)["verdict"] for each in TEXTS}
    assert [each for each, verdict in ranks.items() if "lost at rerank" in verdict] == []
    said = bench.why(column["key"], "f")
    assert "The model did not read it" in said["verdict"]
    bench.judgements.judge("moon", "default", "f", 3)
    assert bench.why(column["key"], "f")["grade"] == 3


def grouped(directory: Path, hits: list[dict[str, Any]], **fields: Any) -> Workbench:
    """A workbench whose flow groups by `page`, and finds these hits."""
    qdrant = {"url": "http://127.0.0.1:9", "indexes": {"page": "integer"}}
    profiles = {"balanced": {"group_by": "page"}}
    settings = load(None, {"qdrant": qdrant, "embedder": {"kind": "none"}, "profiles": profiles, **fields})

    def answer(searches: Sequence[Mapping[str, Any]]) -> TracedResults:
        legs = [{"name": "keyword", "hits": hits}]
        pools = [{"query": {"query_id": "q", **search}, "now": NOW, "legs": legs} for search in searches]
        ranker = PoolRanker.of(settings, None, explain=True)
        return TracedResults([{**ranker(orjson.dumps(each)), "pool": each} for each in pools], None)

    return workbench(directory, answer, settings)


def test_a_grouped_result_is_judged_by_its_key(tmp_path: Path) -> None:
    """On its card, in the answer to *why is it not here*, in runs, and between columns: the key, as in `evaluate`; a
    document without the field by its id.
    """
    parts = [("a#1", 7), ("b#1", 8), ("a#2", 7), ("c", None)]
    hits = [
        {"id": id_, "score": 9.0 - rank, "payload": {"text": id_, **({"page": page} if page else {})}}
        for rank, (id_, page) in enumerate(parts)
    ]
    bench = grouped(tmp_path, hits)
    asked = ConsoleSearch.model_validate({"text": "moon", "columns": [{"recipe": "keyword"}, {"recipe": "rrf"}]})
    [column, _] = bench.search(asked)["columns"]
    assert [(card["id"], card["judged"]) for card in column["cards"]] == [("a#1", "7"), ("b#1", "8"), ("c", "c")]
    bench.judgements.judge("moon", "default", "7", 2)
    found = bench.search(asked)
    assert [card["grade"] for card in found["columns"][0]["cards"]] == [2, None, None]
    assert found["comparisons"][0]["moved"].keys() == {"7", "8", "c"}
    why = bench.why(found["columns"][0]["key"], "a#2")
    assert (why["judged"], why["grade"]) == ("7", 2)
    [query] = bench.judgements.set
    for columns in ([Column(recipe="keyword")], [Column(recipe="keyword"), Column(recipe="rrf")]):
        values = measure_batch(bench, BatchRun(columns=columns, queries=[query]))
        assert [each["MRR@10"] for each in values] == [{query: 1.0}] * len(columns)


def test_a_column_of_another_configuration_is_judged_by_keys(tmp_path: Path) -> None:
    """It ranks the flow's candidates in this process."""
    hits = [{"id": f"{key}#{rank}", "score": 9.0 - rank, "payload": {"page": key}} for rank, key in enumerate((7, 8))]
    bench = grouped(tmp_path, hits)
    other = {"main": bench.main, "other": Configuration.of("other", bench.main.settings, None)}
    bench = replace(bench, configurations=other)
    assert bench.order(Column(config="other", recipe="keyword"), [{"text": "moon"}], 10) == [["7", "8"]]


def test_cards_have_the_documents_own_names(tmp_path: Path) -> None:
    """As the flow answers, and as the pool is ranked again here; short values are filters, and a title is a title."""
    own = {"title": "headline", "own_site": "site", "text": "body"}
    payload = {"title": "Tide", "own_site": "north", "page": 7, "text": "moon", "note": "n" * 61, "tags": ["a"]}
    bench = grouped(tmp_path, [{"id": "40", "score": 1.0, "payload": payload}], documents={"columns": own})
    names, ask = OwnNames(own, whole_ids=True), bench.main.ask
    assert ask is not None
    found = replace(bench.main, ask=lambda asked: TracedResults([*map(names.write, ask(asked).results)], None))
    bench = replace(bench, configurations={"main": found})
    [column] = bench.search(ConsoleSearch.model_validate({"text": "moon", "columns": [{"recipe": "keyword"}]}))[
        "columns"
    ]
    for each in (column, bench.rank(column["key"], Column(recipe="rrf"))):
        [card] = each["cards"]
        assert (card["id"], card["title"], card["text"]) == ("40", "Tide", "moon")
        assert card["fields"] == {"site": "north", "page": "7", "note": "n" * 61, "tags": "a"}
        assert card["values"] == {"site": "north", "page": 7}


def test_judgements_are_what_evaluate_reads(tmp_path: Path) -> None:
    """Grades and queries are in two files that `evaluate` takes; a grade is taken back, and they are read again."""
    kept = JudgementFile(tmp_path / "j.qrels")
    assert kept.judge("moon tide", "sea", "d1", 2) is None
    assert kept.judge("moon  tide", "sea", "d1", 3) == 2
    assert kept.judge("bread", "sea", "d2", 0) is None
    assert kept.judge("bread", "sea", "d3", 1) is None
    assert kept.judge("bread", "sea", "d3", None) == 1
    judged = read_judgements(kept.qrels, kept.queries, None)
    assert sorted(map(dict, judged.values()), key=str) == [{"d1": 3}, {"d2": 0}]
    again = JudgementFile(tmp_path / "j.qrels")
    assert (again.grades, again.set) == (kept.grades, kept.set)
    assert parse_qrels((tmp_path / "j.qrels").read_text().splitlines()) == kept.grades
    assert [each["text"] for each in again.to_view()["queries"]] == ["moon tide", "bread"]


@pytest.mark.parametrize("id_", ["AB 12", "a%20b", "50%", "\u3000", "part\t7\n"])
def test_any_document_and_query_can_be_judged(tmp_path: Path, id_: str) -> None:
    """White space in ids is encoded in the file, and read again, by the console and by `evaluate`."""
    queries, documents = tmp_path / "q.jsonl", tmp_path / "d.jsonl"
    queries.write_bytes(orjson.dumps({"query_id": id_, "text": "moon", "namespace": "sea"}))
    documents.write_bytes(orjson.dumps({"id": id_, "text": "t"}))
    kept = JudgementFile(tmp_path / "j.qrels", queries)
    kept.judge("moon", "sea", id_, 2)
    assert kept.grades == JudgementFile(tmp_path / "j.qrels", queries).grades == {id_: {id_: 2}}
    assert read_judgements(kept.qrels, queries, documents) == kept.grades


@pytest.mark.parametrize(
    ("text", "id_", "grade", "said"),
    [("a", "", 1, "id: missing"), ("a", "x", 4, "grade: 0 to 3"), (" ", "x", 1, "without a text")],
)
def test_what_qrels_cannot_hold_is_refused(tmp_path: Path, text: str, id_: str, grade: int, said: str) -> None:
    """The error says why, and nothing is written."""
    kept = JudgementFile(tmp_path / "j.qrels")
    with pytest.raises(InputError, match=said):
        kept.judge(text, "n", id_, grade)
    assert list(tmp_path.iterdir()) == []


def test_the_queries_of_a_set_keep_their_ids(tmp_path: Path) -> None:
    """A text of the set is judged under its id, and the set gets no second one; a new text is added behind it."""
    queries = tmp_path / "q.jsonl"
    queries.write_bytes(orjson.dumps({"query_id": "q7", "text": "moon", "namespace": "sea"}))
    kept = JudgementFile(tmp_path / "j.qrels", queries)
    kept.judge("moon", "sea", "d1", 1)
    kept.judge("tide", "sea", "d1", 1)
    assert kept.grades["q7"] == {"d1": 1}
    assert [orjson.loads(line)["text"] for line in queries.read_bytes().splitlines()] == ["moon", "tide"]


def test_a_set_may_be_of_recorded_results(tmp_path: Path) -> None:
    """The query of a result is that of its pool; a result without one is named by its line."""
    queries = tmp_path / "results.jsonl"
    asked = {"query_id": "q7", "text": "moon", "namespace": "sea"}
    result = {"result_id": "r", "query_id": "q7", "pool": {"query": asked, "legs": []}}
    queries.write_bytes(orjson.dumps(result))
    assert JudgementFile(tmp_path / "j.qrels", queries).set == {"q7": asked}
    queries.write_bytes(orjson.dumps({"result_id": "r", "query_id": "q7"}))
    with pytest.raises(InputError, match=r"results\.jsonl:1: a result without its pool"):
        JudgementFile(tmp_path / "j.qrels", queries)


def test_an_id_of_two_queries_is_refused(tmp_path: Path) -> None:
    """Grades of one would be the other's; a result that came twice is one."""
    queries = tmp_path / "q.jsonl"
    lines = [orjson.dumps({"query_id": "q7", "text": text}) for text in ("moon", "moon", "tide")]
    queries.write_bytes(b"\n".join(lines[:2]))
    assert JudgementFile(tmp_path / "j.qrels", queries).set.keys() == {"q7"}
    queries.write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=r"q\.jsonl:3: query_id: another query has q7"):
        JudgementFile(tmp_path / "j.qrels", queries)


def test_legs_are_drawn_side_by_side() -> None:
    """Stages follow one another; the legs begin together, and the next stage behind the slowest of them."""
    times = {"embed": 4.0, "vector": 10.0, "keyword": 2.0, "rank": 1.0}
    debug = {"stages_hit": list(times), "per_stage_latency_ms": times, "total_latency_ms": 20.0, "cache_hit": False}
    rows = {row["name"]: row["start"] for row in timeline({"debug": debug})["rows"]}
    assert rows == {"embed": 0.0, "vector": 4.0, "keyword": 4.0, "rank": 14.0}
