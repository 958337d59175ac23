"""The properties of every text and every expression."""

from time import process_time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from operators.text.expression import MOST_OPEN, Expression, all_leaves, parse
from tests.operators.text.expressions import COLUMNS, expressions, spelled, texts

LONGEST = 8192


@given(expressions, st.sampled_from([" AND ", " ", "\n"]))
def test_an_expression_that_is_spelled_out_is_read_as_itself(expression: Expression, conjunction: str) -> None:
    """With AND as with white space, whatever words it holds."""
    assume(sum(leaf.is_open for leaf in all_leaves(expression)) <= MOST_OPEN)
    parsed = parse(spelled(expression, conjunction), COLUMNS)
    assert (parsed.expression, parsed.warnings) == (expression, ())


@given(texts)
def test_any_text_is_read(text: str) -> None:
    """As an expression, or whole as a bare query; only a bare query has a warning."""
    parsed = parse(text, COLUMNS)
    if parsed.expression is None:
        assert (parsed.terms, parsed.leaves, parsed.uncovered) == (text, (), False)
    else:
        assert not any("malformed" in each for each in parsed.warnings)
        assert parsed.terms == " ".join(parsed.leaves)


@given(st.lists(texts, min_size=1, max_size=3), st.text(max_size=3))
def test_long_texts_are_read(token_ids: list[str], between: str) -> None:
    """Whatever repeats in them, without running out of stack."""
    piece = between.join(token_ids) or "("
    parse((piece * LONGEST)[:LONGEST], COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "(",
        '"',
        '""',
        "title:",
        "title:a",
        "a*",
        "a_",
        "(a AND ",
        "a NOT (b ",
        "\u093f",
        "a:",
        "{a ",
        '{"',
        "a + ",
        "- ",
    ],
)
def test_the_time_is_linear(piece: str) -> None:
    """Eight times the text takes far from 64 times as long."""
    short, long = ((piece * count)[:count] for count in (LONGEST, 8 * LONGEST))
    # One time in three is enough: the processor may be another's meanwhile.
    assert any(_duration(long) < 30 * _duration(short) + 0.05 for _ in range(3))


def _duration(text: str) -> float:
    started = process_time()
    parse(text, COLUMNS)
    return process_time() - started
