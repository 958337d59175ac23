"""TREC's formats: judgements read, runs written, and a wrong line named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.evaluation.trec import parse_qrels, run_lines
from schemas.errors import DeadLetterClass, InputError


def test_judgements_by_query_and_document() -> None:
    """Tabs or spaces part the columns, empty lines are skipped, the last of two judgements counts."""
    lines = ["q1 0 a 1\n", "\n", "q1\t0\tb\t-1\n", "q2 Q0 a 3", "q1 0 a 2"]
    assert parse_qrels(lines) == {"q1": {"a": 2, "b": -1}, "q2": {"a": 3}}


@pytest.mark.parametrize("line", ["q1 0 a", "q1 0 a 1 extra", "q1 0 a one", "q1 0 a 1.5", "{}"])
def test_a_line_that_is_none_is_named(line: str) -> None:
    """A line with other columns, or without a whole grade, is an error that says which."""
    with pytest.raises(InputError, match="line 3") as caught:
        parse_qrels(["q1 0 a 1", "", line])
    assert caught.value.kind is DeadLetterClass.INVALID


def test_a_run_by_hand() -> None:
    """Ranks count from 1 and scores keep nine digits."""
    assert list(run_lines("q1", [("a", 0.123456789123), ("b", 0.0), ("c", -1e-7)], "hybrid")) == [
        "q1 Q0 a 1 0.123456789 hybrid\n",
        "q1 Q0 b 2 0 hybrid\n",
        "q1 Q0 c 3 -1e-07 hybrid\n",
    ]


names = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=8)


@given(st.dictionaries(names, st.dictionaries(names, st.integers(-5, 5), min_size=1, max_size=3), max_size=3))
def test_what_is_written_is_read(qrels: dict[str, dict[str, int]]) -> None:
    """Judgements with any names without white space come back as they were."""
    lines = [f"{query} 0 {document} {grade}\n" for query, judged in qrels.items() for document, grade in judged.items()]
    assert parse_qrels(lines) == qrels
