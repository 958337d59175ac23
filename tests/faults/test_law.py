"""The law's checker: what would be a breach is seen as one."""

from dataclasses import replace

import pytest

from tests.faults.law import Asked, OutputRecord, Place, account, by_place

QUERY = Asked(Place("queries", 0, 7), b"key", b"{}", 0.0, query_id="q")
POISON = Asked(Place("queries", 1, 3), b"key", b"{", 0.0, poison="not_json")
RESULT = OutputRecord(QUERY.place, "ok", False, b"key", 0.0, query_id="q")
LETTER = OutputRecord(POISON.place, "not_json", True, b"key", 0.0, value=b"{")
ASKED = {asked.place: asked for asked in (QUERY, POISON)}
HEARD = Asked(Place("queries", 2, 5), b"key", b'{"query_id": "p"}', 0.0, poison="invalid", caller="p")
REFUSAL = OutputRecord(HEARD.place, "invalid", False, b"key", 0.0, query_id="p")
WHY = OutputRecord(HEARD.place, "invalid", True, b"key", 0.0, value=HEARD.value)


def test_each_once_is_the_law() -> None:
    """A result for the query and a dead letter for the poison break nothing."""
    found = account(ASKED, [RESULT, LETTER])
    assert found.breaches() == []
    assert (found.asked, found.results, found.dead_letters) == (2, 1, 1)


@pytest.mark.parametrize(
    ("output_records", "said"),
    [
        ([LETTER], "1 lost, such as 0/7"),
        ([RESULT], "1 lost, such as 1/3"),
        ([RESULT, LETTER, RESULT], "1 twice, such as 0/7"),
        ([RESULT, LETTER, replace(LETTER, place=RESULT.place, kind="internal")], "1 twice, such as 0/7"),
        ([RESULT, LETTER, replace(RESULT, place=Place("queries", 0, 8))], "1 never asked, such as 0/8"),
        ([replace(RESULT, query_id="p"), LETTER], "the result of p for q"),
        ([replace(RESULT, key=b"other"), LETTER], "another key than the message's"),
        ([replace(LETTER, place=QUERY.place), LETTER], "a dead letter of class not_json for a query"),
        ([RESULT, replace(RESULT, place=POISON.place)], "ok for poison of class not_json"),
        ([RESULT, replace(LETTER, kind="invalid")], "invalid for poison of class not_json"),
        ([RESULT, replace(LETTER, value=b"")], "a dead letter with another value than the message's"),
    ],
)
def test_a_breach_is_named(output_records: list[OutputRecord], said: str) -> None:
    """A lost, doubled, foreign or wrong terminal record is told, and where."""
    assert any(said in breach for breach in account(ASKED, output_records).breaches())


def test_the_first_of_two_at_an_offset_counts() -> None:
    """A second message at the place of another is one that no reader is given."""
    second = replace(QUERY, key=b"second", query_id="second")
    assert by_place([QUERY, POISON, second]) == ASKED


def test_a_refusal_is_a_result_and_a_letter() -> None:
    """A legible caller's poison ends in both, and they are one end."""
    found = account({HEARD.place: HEARD}, [REFUSAL, WHY])
    assert found.breaches() == []
    assert found.kinds == {"invalid": 1, "letter invalid": 1}


@pytest.mark.parametrize(
    ("output_records", "said"),
    [
        ([REFUSAL], "1 lost, such as 2/5"),
        ([WHY], "1 unheard, such as 2/5"),
        ([REFUSAL, WHY, REFUSAL], "1 twice, such as 2/5"),
        ([REFUSAL, WHY, WHY], "1 twice, such as 2/5"),
        ([REFUSAL, replace(REFUSAL, kind="ok")], "1 twice, such as 2/5"),
        ([replace(REFUSAL, query_id="q"), WHY], "the refusal of q for p"),
        ([REFUSAL, WHY, replace(REFUSAL, place=Place("queries", 0, 8))], "1 never asked, such as 0/8"),
    ],
)
def test_half_a_refusal_is_a_breach(output_records: list[OutputRecord], said: str) -> None:
    """One of the two without the other, or either of them twice, is told."""
    assert any(said in breach for breach in account({HEARD.place: HEARD}, output_records).breaches())


def test_a_refusal_where_there_should_be_none_is_a_breach() -> None:
    """Neither a query that is right nor a message without a caller is refused to anybody."""
    for asked, letter in ((QUERY, replace(LETTER, place=QUERY.place)), (POISON, LETTER)):
        refused = replace(REFUSAL, place=asked.place)
        assert any("a refusal for" in fault for fault in account({asked.place: asked}, [letter, refused]).wrong)


def test_a_class_that_a_scenario_names_is_right() -> None:
    """A query may end as a dead letter of a class that allows it, with or without payload."""
    letter = OutputRecord(QUERY.place, "too_large", True, b"key", 0.0, value=None)
    assert account(ASKED, [letter, LETTER], {"too_large"}).breaches() == []
    assert account(ASKED, [letter, LETTER]).breaches() != []


def test_nothing_asked_is_no_proof() -> None:
    """A scenario that asked nothing has shown nothing."""
    assert account({}, []).breaches() == ["nothing was asked"]
