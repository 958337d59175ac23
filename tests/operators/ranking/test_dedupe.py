"""Dedupe: what two documents must share to count as one, in any script."""

import unicodedata
from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.ranking.candidate import Candidate
from operators.ranking.content import dedupe, fingerprint, identify_content
from schemas.document import CONTENT, FIELDS
from schemas.recipes.stages import Dedupe
from tests.operators.ranking.odd import NO_NUMBERS, payloads
from tests.operators.ranking.pools import candidate, explanation, ids, recipe, run, scores, with_content


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("The Cat", "the  cat", id="case and spaces"),
        pytest.param("a b", "\t a\n\u00a0b \u3000", id="tab, line break, no-break and ideographic space"),
        pytest.param("STRASSE", "straße", id="German sharp s"),
        pytest.param("Größe", "GRO\u0308SSE", id="German umlaut as two code points"),
        pytest.param("ｶﾀｶﾅ ＡＢＣ", "カタカナ ABC", id="Japanese half-width and full-width"),
        pytest.param("がく", "か\u3099く", id="Japanese voicing mark as two code points"),
        pytest.param("ﻻ", "لا", id="Arabic ligature"),
        pytest.param("ﷲ", "الله", id="Arabic presentation form"),
        pytest.param("①ﬁ²", "1fi2", id="compatibility characters"),
        pytest.param("ΣΊΣΥΦΟΣ", "σίσυφος", id="Greek final sigma"),
    ],
)
def test_what_says_the_same(one: str, other: str) -> None:
    """Texts that differ in case, white space or compatibility forms have one fingerprint."""
    assert fingerprint(one) == fingerprint(other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("ab", "a b", id="a space"),
        pytest.param("schon", "schön", id="German umlaut"),
        pytest.param("はは", "ぱぱ", id="Japanese voicing"),
        pytest.param("كتب", "كِتَب", id="Arabic vowel marks"),
        pytest.param("会う", "会", id="Japanese ending"),
        pytest.param("a.", "a", id="punctuation"),
    ],
)
def test_what_says_something_else(one: str, other: str) -> None:
    """Letters, marks and punctuation tell texts apart."""
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000\u00a0"])
def test_an_empty_text_has_no_fingerprint(text: str) -> None:
    """Nothing but white space has no content to compare."""
    assert fingerprint(text) is None


@given(st.text(st.characters(exclude_categories=()), max_size=40))
@example("\ud800")
def test_a_fingerprint_is_an_integer_that_every_index_takes(text: str) -> None:
    """Any text, lone surrogates too, has one of 63 bits, the same each time, or none."""
    value = fingerprint(text)
    assert value == fingerprint(text)
    assert value is None or 0 <= value < 2**63


def test_a_fingerprint_never_changes() -> None:
    """The index keeps it: these values hold for every version."""
    assert fingerprint("Hello, World") == int.from_bytes(bytes.fromhex(_HELLO)) >> 1


_HELLO = "11627be1588b7bc3"
"""BLAKE2b with an eight-byte digest of b"hello, world"."""


@given(st.text(max_size=20))
def test_normalising_again_changes_nothing(text: str) -> None:
    """A text and its own compatibility form are duplicates."""
    assert fingerprint(text) == fingerprint(unicodedata.normalize("NFKC", text))


def with_text(id_: str, text: object, **more: object) -> Candidate:
    """A candidate with a text and without a fingerprint."""
    return candidate(id_, 1.0, text=text, **more)


def deduped(pool: list[Candidate], limit: int = 0) -> list[str]:
    """The ids that are left."""
    return ids(dedupe(pool, Dedupe(limit=limit), run()))


def test_the_first_of_equal_contents_stays() -> None:
    """Later candidates with an earlier one's content go; the order and scores of the others stay."""
    ranked = [
        candidate(id_, score, **{CONTENT: content})
        for id_, score, content in zip("abcd", (9, 1, 5, 5), (1, 2, 1, 3), strict=True)
    ]
    assert scores(dedupe(ranked, Dedupe(), run())) == [("a", 9), ("b", 1), ("d", 5)]


NEW, OLD = "2026-02-01T00:00:00.000Z", "2025-02-01T00:00:00.000Z"


@pytest.mark.parametrize(
    ("one", "other", "kept"),
    [
        ({"created_at": OLD}, {"created_at": NEW}, "b"),
        ({"created_at": NEW}, {"created_at": OLD}, "a"),
        ({"updated_at": OLD, "created_at": NEW}, {"updated_at": NEW, "created_at": OLD}, "b"),
        ({"created_at": NEW}, {"updated_at": OLD}, "a"),
        ({}, {"created_at": OLD}, "b"),
        ({"created_at": "yesterday"}, {"created_at": OLD}, "b"),
        ({"created_at": NEW, FIELDS: 3}, {"created_at": NEW, FIELDS: 4}, "b"),
        ({"created_at": NEW, FIELDS: 3}, {"created_at": OLD, FIELDS: 9}, "a"),
        ({FIELDS: 3}, {FIELDS: 3}, "a"),
        ({FIELDS: 3}, {FIELDS: "9"}, "a"),
    ],
)
def test_the_newest_of_equal_contents_stays(one: dict[str, Any], other: dict[str, Any], kept: str) -> None:
    """Or the one with most fields, or the first; it keeps its own score, and its place among the others."""
    ranked = [
        candidate("a", 9, **{CONTENT: 1}, **one),
        candidate("c", 7, **{CONTENT: 2}),
        candidate("b", 5, **{CONTENT: 1}, **other),
    ]
    left = scores(dedupe(ranked, Dedupe(), run()))
    assert left == ([("a", 9), ("c", 7)] if kept == "a" else [("c", 7), ("b", 5)])


def test_without_content_nothing_is_a_duplicate() -> None:
    """Candidates without a fingerprint or a text all stay, and a fingerprint of 0 is one like others."""
    assert deduped([with_content("a", None), with_content("b", None), with_content("c", 0), with_content("d", 0)]) == [
        "a",
        "b",
        "c",
    ]


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000", None, 7, ["a"], True])
def test_an_empty_text_is_never_a_duplicate(text: object) -> None:
    """Documents whose text is empty, white space, or none at all stay beside each other."""
    assert deduped([with_text("a", text), with_text("b", text), with_text("c", text, title="")]) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("Das Grüne  Haus", "das gru\u0308ne haus", id="German umlaut"),
        pytest.param("Große STRASSE", "große Straße", id="German sharp s"),
        pytest.param("ｶﾀｶﾅ の 本", "カタカナ\u3000の\n本", id="Japanese"),
        pytest.param("ﻛﺘﺎﺏ ﷲ", "كتاب  الله", id="Arabic"),
    ],
)
def test_texts_that_say_the_same(one: str, other: str) -> None:
    """Without a fingerprint the text decides, and so does a text beside a fingerprint that the index kept of one."""
    assert deduped([with_text("a", one), with_text("b", "else"), with_text("c", other)]) == ["a", "b"]
    assert deduped([with_content("a", fingerprint(one)), with_text("b", other)]) == ["a"]
    assert deduped([with_text("a", one), with_content("b", fingerprint(other))]) == ["a"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("schon", "schön"), ("はは", "ぱぱ"), ("كتب", "كِتَب"), ("会う", "会"), ("a b", "ab")],
)
def test_texts_that_say_something_else(one: str, other: str) -> None:
    """Letters and marks tell texts apart."""
    assert deduped([with_text("a", one), with_text("b", other)]) == ["a", "b"]


def test_the_fingerprint_goes_before_the_text() -> None:
    """The index's word counts if both are there, as it saw the whole text."""
    assert deduped([with_text("a", "same", **{CONTENT: 1}), with_text("b", "same", **{CONTENT: 2})]) == ["a", "b"]
    assert deduped([with_text("a", "one", **{CONTENT: 1}), with_text("b", "two", **{CONTENT: 1})]) == ["a"]


@pytest.mark.parametrize("value", [*NO_NUMBERS, 1.0, "1", 1e308])
def test_a_fingerprint_that_is_no_integer_is_none(value: object) -> None:
    """In the place of a value that the index never keeps the text decides."""
    one, same = with_text("a", "same", **{CONTENT: value}), with_text("b", "Same")
    assert deduped([one, same, with_text("c", "else", **{CONTENT: value})]) == ["a", "c"]


def test_title_and_text_are_one_content() -> None:
    """Both columns count, as the index joins them; a title alone is a content, too."""
    assert deduped([with_text("a", "same", title="One"), with_text("b", "same", title="Two")]) == ["a", "b"]
    assert deduped([with_text("a", "same", title="One"), with_text("b", "SAME", title="one")]) == ["a"]
    assert deduped([candidate("a", 1.0, title="One"), candidate("b", 1.0, title="ONE")]) == ["a"]


@pytest.mark.parametrize(("limit", "kept"), [(2, "ab"), (1, "a"), (9, "abd"), (0, "abd"), (-1, "abd")])
def test_the_limit_counts_what_is_left(limit: int, kept: str) -> None:
    """At most `limit` stay, duplicates not counted; 0 or less is all."""
    pool = [with_content(id_, content) for id_, content in (("a", 1), ("b", 2), ("c", 1), ("d", 3))]
    assert deduped(pool, limit) == list(kept)


@given(st.lists(st.none() | st.integers(0, 3), max_size=15), st.integers(-2, 5))
def test_dedupe_loses_no_content(contents: list[int | None], limit: int) -> None:
    """Each content stays once, at its first place, up to the limit; deduping again changes nothing."""
    ranked = [with_content(str(index), content) for index, content in enumerate(contents)]
    kept = dedupe(ranked, Dedupe(limit=limit), run())
    assert dedupe(kept, Dedupe(limit=limit), run()) == kept
    expected = [
        str(index) for index, content in enumerate(contents) if content is None or content not in contents[:index]
    ]
    assert ids(kept) == (expected[:limit] if limit > 0 else expected)


@given(st.lists(payloads, max_size=8))
def test_any_payload_is_deduped(pool: list[dict[str, Any]]) -> None:
    """Whatever the fields hold, nothing raises, each content stays once, and order and scores are kept."""
    ranked = [Candidate(str(place), -float(place), payload) for place, payload in enumerate(pool)]
    kept = dedupe(ranked, Dedupe(), run())
    assert kept == [each for each in ranked if each in kept]
    contents = [identify_content(each.payload) for each in kept]
    assert set(contents) == {identify_content(each.payload) for each in ranked}
    assert all(count == 1 for content, count in Counter(contents).items() if content is not None)


def test_what_stays_is_explained_as_unchanged() -> None:
    """A document that stays has a step with the same score before and after; one that goes has none."""
    noting = run(recipe("score", {"dedupe": {"limit": 5}}), explain=True)
    dedupe([candidate("a", 0.7, text="same"), candidate("b", 0.6, text="same")], Dedupe(limit=5), noting)
    (step,) = explanation(noting, "a").stages
    assert (step["stage"], step["input"], step["output"], step["parameters"]) == ("dedupe", 0.7, 0.7, {"limit": 5})
    assert noting.explanations is not None
    assert "b" not in noting.explanations.by_id
