"""TREC's formats: judgements read, runs written, and a wrong line named."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.metrics import parse_qrels, parse_run, qrels_lines, run_lines
from schemas.errors import DeadLetterClass, InputError


def test_judgements_by_query_and_document() -> None:
    """Tabs or spaces part the columns, empty lines are skipped, and a judgement may be there twice."""
    lines = ["q1 0 a 2\n", "\n", "q1\t0\tb\t-1\n", "q2 Q0 a 3", "q1 0 a 2"]
    assert parse_qrels(lines) == {"q1": {"a": 2, "b": -1}, "q2": {"a": 3}}


@pytest.mark.parametrize("line", ["q1 0 a", "q1 0 a 1 extra", "q1 0 a one", "q1 0 a 1.5", "{}"])
def test_a_line_that_is_none_is_named(line: str) -> None:
    """A line with other columns, or without a whole grade, is an error that says which."""
    with pytest.raises(InputError, match="line 3") as caught:
        parse_qrels(["q1 0 a 1", "", line])
    assert caught.value.kind is DeadLetterClass.INVALID


@pytest.mark.parametrize("grades", [(0, 1), (1, 0), (1, 2), (-1, 1)])
def test_judgements_that_contradict_each_other_are_named(grades: tuple[int, int]) -> None:
    """Neither of two grades of one document counts: the error says which line has the second."""
    first, second = grades
    with pytest.raises(InputError, match=f"line 3: query q has a already, with the grade {first}"):
        parse_qrels([f"q 0 a {first}", f"r 0 a {second}", f"q 0 a {second}"])


def test_a_run_by_hand() -> None:
    """Ranks count from 1 and scores keep nine digits."""
    assert list(run_lines("q1", [("a", 0.123456789123), ("b", 0.0), ("c", -1e-7)], "hybrid")) == [
        "q1 Q0 a 1 0.123456789 hybrid\n",
        "q1 Q0 b 2 0 hybrid\n",
        "q1 Q0 c 3 -1e-07 hybrid\n",
    ]


names = st.text(st.characters(codec="utf-8") | st.sampled_from(" \t\u00a0%2509"), min_size=1, max_size=8)
SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]


@given(st.dictionaries(names, st.dictionaries(names, st.integers(-5, 5), min_size=1, max_size=3), max_size=3))
def test_what_is_written_is_read(qrels: dict[str, dict[str, int]]) -> None:
    """Judgements with any names come back as they were."""
    lines = [line for query, judged in qrels.items() for line in qrels_lines(query, judged)]
    assert parse_qrels(lines) == qrels


def test_an_empty_ranking_has_a_line() -> None:
    """The query was asked, and other tools count it: its line has a document that nothing judges."""
    assert list(run_lines("q 1", [], "x")) == ["q%201 Q0 %none 1 0 x\n"]
    assert parse_run(["q%201 Q0 %none 1 0 x", "r Q0 a 1 1 x"]) == {"q 1": [], "r": ["a"]}
    [line] = run_lines("q", [("%none", 1.0)], "x")
    assert parse_run([line]) == {"q": ["%none"]}


def test_a_run_is_read_by_score() -> None:
    """By hand: the greater score goes first, of equal ones the smaller rank, whatever order the lines have."""
    lines = ["q2 Q0 z 1 0.5 x", "", "q1 Q0 b 2 3 x", "q1 Q0 a 3 3.0 x\n", "q1\tQ0\tc 9 1e1 x", "q1 Q0 d 1 -1 x"]
    assert parse_run(lines) == {"q2": ["z"], "q1": ["c", "b", "a", "d"]}


@pytest.mark.parametrize("line", ["q Q0 a 1 0.5", "q Q0 a 1 0.5 x y", "q Q0 a 1 nan x", "q Q0 a first 1 x", "q 0 a 1"])
def test_a_line_of_no_run_is_named(line: str) -> None:
    """A line with other columns, or whose rank or score is no number, is an error that says which."""
    with pytest.raises(InputError, match="line 2: expected `query Q0 document rank score tag`"):
        parse_run(["q Q0 b 1 0.5 x", line])


def test_a_document_twice_is_named() -> None:
    """A query has a document once; another query may have it, too."""
    with pytest.raises(InputError, match="line 3: query q has a already"):
        parse_run(["q Q0 a 1 0.5 x", "r Q0 a 1 0.5 x", "q Q0 a 2 0.4 x"])


@given(st.dictionaries(names, st.lists(names, unique=True, max_size=5), max_size=3), st.floats(-1, 1))
def test_a_run_that_is_written_is_read(run: dict[str, list[str]], score: float) -> None:
    """Rankings come back in their order, with equal scores too."""
    lines = [
        line
        for query, documents in run.items()
        for line in run_lines(query, ((each, score) for each in documents), "x")
    ]
    assert parse_run(lines) == run


def test_white_space_is_no_part_of_a_column() -> None:
    """A tag has underscores for it, and an id has it percent-encoded, with the sign that says so."""
    lines = list(run_lines("my query", [("my\u00a0\tdoc", 1.0), ("my%20doc", 0.5)], "score > composite"))
    assert lines == [
        "my%20query Q0 my%C2%A0%09doc 1 1 score_>_composite\n",
        "my%20query Q0 my%2520doc 2 0.5 score_>_composite\n",
    ]
    assert parse_run(lines) == {"my query": ["my\u00a0\tdoc", "my%20doc"]}


@pytest.mark.parametrize("sign", [*SPACES, "%"], ids=ascii)
def test_every_white_space_comes_back(sign: str) -> None:
    """Whatever Python takes for white space, in judgements and in runs, also in small letters."""
    id_ = f"{sign}a{sign}{sign}20"
    [judgement], [ranked] = list(qrels_lines(id_, {id_: 1})), list(run_lines(id_, [(id_, 1.0)], "x"))
    assert (len(judgement.split()), len(ranked.split())) == (4, 6)
    for lower in (False, True):
        assert parse_qrels([judgement.lower() if lower else judgement]) == {id_: {id_: 1}}
        assert parse_run([ranked.lower() if lower else ranked]) == {id_: [id_]}


@pytest.mark.parametrize("id_", ["https://x/%C3%84", "a%2Fb", "50%", "%", "%zz", "%C2", "%E2%80%99"])
def test_other_escapes_are_a_part_of_the_id(id_: str) -> None:
    """Other tools' files have ids as they are: only what would be written is decoded."""
    assert parse_qrels([f"{id_} 0 {id_} 1"]) == {id_: {id_: 1}}
    assert parse_run([f"{id_} Q0 {id_} 1 1 x"]) == {id_: [id_]}
