"""Answers for people: a refusal in one line, warnings, explanations as a tree, stages as a table, 80 columns."""

import io
from pathlib import Path
from typing import Any, Final

import pytest

from flows.cli import output as answers
from flows.cli.output import Terminal, answer_table, debug_table, explanation_tree, print_result, snippet
from flows.cli.query import parse_condition, refusal
from flows.process.embedded import embedded_settings

STAGE = {
    "stage": "score",
    "input": None,
    "output": 0.5,
    "parameters": {"alpha": 0.5},
    "values": {"scales": {"keyword": {"factor": 2.0}}},
}
HIT: dict[str, Any] = {
    "id": "[b]d",
    "rank": 1,
    "score": 0.5,
    "text": "harbor " * 50,
    "payload": {},
    "legs": {"vector": {"rank": 0, "score": 0.7}, "keyword": {"rank": 3, "score": 11.2}},
    "explanation": {
        "legs": {"vector": {"rank": 0, "score": 0.7, "normalised": 1.0, "weight": 0.5, "contribution": 0.5}},
        "stages": [STAGE, {**STAGE, "stage": "dedupe", "input": 0.5, "parameters": {}, "values": {}}],
    },
}
RESULT: dict[str, Any] = {
    "status": "unranked",
    "results": [HIT],
    "legs": [{"name": "vector"}, {"name": "keyword"}],
    "degraded": [{"stage": "rerank", "reason": "timeout"}],
    "warnings": ["profile [x]: not configured"],
    "total": 7,
    "total_relation": "eq",
    "next_cursor": "ARAK",
    "debug": {
        "stages_hit": ["vector", "rank"],
        "candidates_per_stage": {"vector": 50},
        "per_stage_latency_ms": {"vector": 12.34},
        "total_latency_ms": 20.0,
    },
}


def printed(content: Any) -> str:
    """The output on a terminal of 80 columns."""
    file = io.StringIO()
    Terminal(file=file, width=80, color_system=None).print(content)
    return file.getvalue()


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> tuple[io.StringIO, io.StringIO]:
    """The output on standard output and standard error, 80 columns wide."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(answers, "out", Terminal(file=out, width=80, color_system=None))
    monkeypatch.setattr(answers, "stderr", Terminal(file=err, width=80, color_system=None))
    return out, err


def test_an_answer_says_all_that_it_has(told: tuple[io.StringIO, io.StringIO]) -> None:
    """Results and status, the explanation, the stages and the warnings."""
    print_result(RESULT, "harbor", as_json=False)
    out, err = (each.getvalue() for each in told)
    for part in ("[b]d", "unranked (rerank: timeout), 7 matching", "alpha: 0.5000", "20.0 ms"):
        assert part in out
    assert err == "warning: profile [x]: not configured\n"


def test_facets_stand_below_the_results(told: tuple[io.StringIO, io.StringIO]) -> None:
    """A line each: values or ranges with their counts, and dots where there are more."""
    facets = [
        {"field": "brand", "values": [{"value": "Sony", "count": 14}, {"value": "[b]JBL", "count": 3}], "more": True},
        {"field": "price", "ranges": [{"bounds": {"lt": 50}, "count": 7}], "more": False},
    ]
    print_result({**RESULT, "facets": facets}, "harbor", as_json=False)
    assert "\nbrand: Sony 14, [b]JBL 3, …\nprice: {'lt': 50} 7\n" in told[0].getvalue()


def test_the_count_below_the_results_contradicts_none_of_them() -> None:
    """Results by meaning alone match no word; a query that was not searched has no count."""
    hits = [{**RESULT["results"][0], "rank": rank} for rank in (1, 2)]
    result = {**RESULT, "status": "ok", "degraded": [], "results": hits, "total_relation": "eq"}
    assert "ok, 0 matching, 2 by meaning alone" in printed(answer_table({**result, "total": 0}, "q"))
    assert "ok, 1 matching, 1 by meaning alone" in printed(answer_table({**result, "total": 1}, "q"))
    assert "meaning" not in printed(answer_table({**result, "total": 2}, "q"))
    failed = {**result, "status": "failed", "results": [], "total": 0, "total_relation": "nearest"}
    assert "nearest" not in printed(answer_table(failed, "q"))


def test_the_documents_of_a_group_stand_below_their_result() -> None:
    """They have their scores and no rank; a leg that found none but them has its column."""
    other = {"id": "part", "score": 0.25, "text": "quay", "payload": {}, "legs": {"fuzzy": {"rank": 9, "score": 3.5}}}
    hit = {**HIT, "group": {"key": "p", "count": 2, "results": [other]}}
    lines = printed(answer_table({**RESULT, "results": [hit], "legs": [{"name": "fuzzy"}]}, "harbor")).splitlines()
    first, second = [line.split() for line in lines if "[b]d" in line or "part" in line]
    assert first[1:6:2] == ["1", "[b]d", "0.500"]
    assert [each for each in second if each != "│"] == ["part", "0.250", "3.500", "quay"]


def test_a_long_id_leaves_room_for_the_text() -> None:
    """It stands whole below the text."""
    uuid = "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
    shown = printed(answer_table({**RESULT, "results": [{**HIT, "id": uuid, "text": "The quay of the harbor"}]}, "q"))
    assert ("The quay of the harbor" in shown, uuid in shown, "document" in shown) == (True, True, False)


def test_a_leg_that_found_nothing_has_no_column(told: tuple[io.StringIO, io.StringIO]) -> None:
    """The width is the text's."""
    print_result({**RESULT, "legs": [{"name": "vector"}, {"name": "fuzzy"}]}, "harbor", as_json=False)
    assert "vector" in told[0].getvalue()
    assert "fuzzy" not in told[0].getvalue()


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"text": "one  two\nthree"}, "one two three"),
        ({"text": None}, ""),
        ({"payload": {"title": "A  title"}, "text": "one"}, "A title: one"),
        ({"id": "a", "payload": {"title": "a"}, "text": "one"}, "one"),
        ({"passages": [{"text": "one two", "start": 0, "highlights": [[4, 7]]}]}, "one two"),
        ({"passages": [{"text": "one two", "start": 9, "highlights": []}]}, "… one two"),
        ({"passages": [{"text": "far " * 20 + "two", "start": 0, "highlights": [[80, 83]]}]}, f"… {'far ' * 7}two"),
        ({"passages": [{"text": "x" * 90 + "two", "start": 0, "highlights": [[90, 93]]}]}, "x" * 90 + "two"),
        ({"passages": []}, "harbor " * 28 + "harb"),
    ],
)
def test_the_text_around_the_match_is_shown(changes: dict[str, Any], shown: str) -> None:
    """A result is shown by its title and the words that matched; without passages by the beginning of its text."""
    assert snippet({**HIT, "payload": {}, **changes}) == shown


def test_a_refusal_is_one_line(told: tuple[io.StringIO, io.StringIO]) -> None:
    """Class and reason, on standard error, and no table."""
    print_result(refusal("q", "invalid", "limit: -1 [x]"), "harbor", as_json=False)
    out, err = (each.getvalue() for each in told)
    assert (out, err) == ("", "the query was refused (invalid): limit: -1 [x]\n")


@pytest.mark.parametrize("part", [answer_table(RESULT, "harbor"), explanation_tree(HIT), debug_table(RESULT["debug"])])
def test_a_terminal_of_80_columns_is_enough(part: Any) -> None:
    """No line is wider, and no column is squeezed to nothing."""
    lines = printed(part).splitlines()
    assert max(map(len, lines)) <= 80


def test_a_tree_has_the_steps_of_a_score() -> None:
    """The legs first, then each stage with what went in, what came out, its parameters and its values."""
    assert [line.strip("│├└─ ") for line in printed(explanation_tree(HIT)).splitlines()] == [
        "1. [b]d: 0.5000",
        "leg vector: rank 0, score 0.7000, normalised 1.0000, weight 0.5000,",
        "contribution 0.5000",
        "stage score: 0.5000",
        "alpha: 0.5000",
        "scales.keyword.factor: 2.0000",
        "stage dedupe: 0.5000 -> 0.5000",
    ]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("product=router", {"field": "product", "op": "eq", "value": "router"}),
        ("year=2020", {"field": "year", "op": "eq", "value": 2020}),
        ("a.b=x=y", {"field": "a.b", "op": "eq", "value": "x=y"}),
        ("tags[].label=x", {"field": "tags[].label", "op": "eq", "value": "x"}),
        ("page number=7", {"field": '"page number"', "op": "eq", "value": 7}),
        (
            '{"field": "y", "op": "range", "value": {"gte": 2}}',
            {"field": "y", "op": "range", "value": {"gte": 2}},
        ),
    ],
)
def test_a_filter_is_a_field_and_a_value_or_json(text: str, made: dict[str, Any]) -> None:
    """The value of a field without an index is what it says as JSON, and any other is a text."""
    assert parse_condition(text).read(embedded_settings(Path())) == made


SHOP: Final = embedded_settings(
    Path(),
    {
        "documents": {
            "columns": {"id": "Artikelnr", "updated_at": "Stand"},
            "formats": {
                "Preis": "decimal_comma",
                "Bestand": "integer",
                "Aktiv": "boolean",
                "Farben": "|",
                "updated_at": ["iso_utc", "%d.%m.%Y"],
            },
        },
        "qdrant": {
            "indexes": {
                "EAN": "keyword",
                "Preis": "float",
                "Bestand": "integer",
                "Aktiv": "bool",
                "neu": "bool",
                "ab": "datetime",
            }
        },
    },
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("EAN=4025730025563", "4025730025563"),
        ('EAN="4025730025563"', "4025730025563"),
        ("EAN=null", "null"),
        ("Artikelnr=41193", "41193"),
        ("Aktiv=ja", True),
        ("Farben=rot", "rot"),
        ("Aktiv=false", False),
        ("neu=yes", True),
        ("Preis=49,95", 49.95),
        ("Preis=49.95", 49.95),
        ("Preis=1.299,00", 1299.0),
        ("Bestand=12", 12),
        ("Bestand=some", "some"),
        ("ab=2026-02-01", {"gte": "2026-02-01T00:00:00.000Z", "lte": "2026-02-01T00:00:00.000Z"}),
        ("Stand=01.02.2026", {"gte": "2026-02-01T00:00:00.000Z", "lte": "2026-02-01T00:00:00.000Z"}),
        ("created_at=1700000000", {"gte": 1700000000, "lte": 1700000000}),
        ("ab=soon", {"gte": "soon", "lte": "soon"}),
    ],
)
def test_a_value_is_read_by_the_type_of_its_field(text: str, value: object) -> None:
    """And in the form that the documents have: commas, words for yes, and dates."""
    op = "date_range" if isinstance(value, dict) else "eq"
    assert parse_condition(text).read(SHOP) == {"field": text.partition("=")[0], "op": op, "value": value}
