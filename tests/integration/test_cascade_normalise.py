"""Normalise, through the running flow: limits, cursors, profiles, places and texts."""

import base64
import dataclasses
from typing import Any

import pytest

from operators.query.cursor import CursorCodec
from tests.integration.cascade import Json, System, ids, leg
from tests.integration.cascade_sources import SECRET

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

LOGGED: Json = {"namespace": "log", "filters": [{"field": "flag", "op": "exists", "value": True}]}


def test_limits(kitchen: System) -> None:
    """0, less and missing mean 20, above 200 means 200, for lookups and for searches; less than 0 with a warning."""
    limits = {None: 20, 0: 20, -1: 20, -200: 20, 1: 1, 200: 200, 201: 200, 10**6: 200}
    for event in (LOGGED, {"namespace": "log", "text": "entry of the harbor"}):
        answers = kitchen.answers([{**event, "limit": limit} for limit in limits])
        assert [len(answer["results"]) for answer in answers] == list(limits.values())
        warned = [limit for limit, answer in zip(limits, answers, strict=True) if answer["warnings"]]
        assert warned == [-1, -200]
    wrong = kitchen.together([{**LOGGED, "limit": limit} for limit in (2.0, "3", True)])
    assert {(ended.kind, ended.said.split(":")[0]) for ended in wrong} == {("invalid", "limit")}


def test_a_cursor_is_of_its_query_alone(kitchen: System) -> None:
    """With anything changed that can change the order of the results, a cursor is a dead letter `cursor_invalid`, not
    another's page; another limit, `explain` and `debug` go on where the page ended.
    """
    event = {"namespace": "log", "text": "harbor lantern", "limit": 3, "now": 1_704_000_000}
    cursor = kitchen.ask(event)["next_cursor"]
    others: list[Json] = [
        {"text": "harbor lanterns"},
        {"namespace": "kitchen"},
        {"namespace": "nobody"},
        {"source": "another"},
        {"destination": "elsewhere"},
        {"collection": "notes"},
        {"subject": "s1"},
        {"actor_type": "user"},
        {"filters": [{"field": "flag", "op": "eq", "value": True}]},
        {"profile": "deep"},
        {"recipe": "rrf"},
        {"overrides": {"score": {"alpha": 0.4}}},
        {"rerank": False},
        {"include_reflections": False},
        {"now": 1_704_000_001},
        {"vector": [1.0] + [0.0] * 383},
        {"text": None, "filters": [{"field": "flag", "op": "eq", "value": True}]},
    ]
    ended = kitchen.together([{**event, **other, "cursor": cursor} for other in others])
    assert [each.kind for each in ended] == ["cursor_invalid"] * len(others)
    long = ids(kitchen.ask({**event, "limit": 9}))
    for more, count in (({}, 3), ({"limit": 6}, 6), ({"limit": 1, "explain": True}, 1), ({"debug": True}, 3)):
        assert ids(kitchen.ask({**event, "cursor": cursor, **more})) == long[3 : 3 + count]


def _altered(cursor: str) -> list[str]:
    """Every cursor with one bit of it changed, and other spellings of its bytes."""
    content = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    flipped = [
        content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        for place in range(len(content))
        for bit in range(8)
    ]
    spelled = [base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in flipped]
    cut = [cursor[:-1], cursor[1:], cursor + "A", cursor + "=", f" {cursor}", cursor.swapcase(), "A", "x" * 512, "é"]
    if tail := len(cursor) % 4:
        # The bits of the last character that are no byte's.
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
        spare = alphabet[alphabet.index(cursor[-1]) ^ 1] if tail else ""
        cut.append(cursor[:-1] + spare)
    return spelled + cut


@pytest.mark.parametrize("event", [{"namespace": "log", "text": "harbor lantern", "limit": 3}, {**LOGGED, "limit": 3}])
def test_a_cursor_that_was_tampered_with_is_refused(kitchen: System, event: Json) -> None:
    """Any bit changed, any character more, fewer or written otherwise: a dead letter `cursor_invalid` for each."""
    cursor = kitchen.ask(event)["next_cursor"]
    altered = _altered(cursor)
    assert len(altered) > 500
    assert cursor not in altered
    ended = kitchen.together([{**event, "cursor": each} for each in altered])
    assert {each.kind for each in ended} == {"cursor_invalid"}
    assert kitchen.ask({**event, "cursor": cursor})["results"]


def test_a_cursor_must_be_signed_where_there_is_a_secret(kitchen: System) -> None:
    """Without the signature, or with another secret's, what is right in all else is `cursor_invalid`."""
    event = {"namespace": "log", "text": "harbor lantern", "limit": 3}
    cursor = CursorCodec(SECRET.encode()).read(kitchen.ask(event)["next_cursor"])
    forged = [CursorCodec(secret).write(cursor) for secret in (None, b"another secret of some length")]
    further = CursorCodec(SECRET.encode()).write(dataclasses.replace(cursor, now=cursor.now))
    ended = kitchen.together([{**event, "cursor": each} for each in (*forged, further)])
    assert [each.kind for each in ended] == ["cursor_invalid", "cursor_invalid", "result"]


def test_without_a_secret_cursors_are_checksummed(plain: System) -> None:
    """A damaged cursor is refused all the same, and the process says at start that nothing is signed."""
    event: Json = {"filters": [{"field": "id", "op": "exists", "value": True}], "limit": 2}
    cursor = plain.ask(event)["next_cursor"]
    signed = CursorCodec(SECRET.encode()).write(CursorCodec(None).read(cursor))
    ended = plain.together([{**event, "cursor": each} for each in (*_altered(cursor), signed)])
    assert {each.kind for each in ended} == {"cursor_invalid"}
    assert len(ids(plain.ask({**event, "cursor": cursor}))) == 2
    assert "cursor.signing_secret isn't set" in plain.deployment.flows[-1].log.read_text()


def test_a_clearance_without_the_firewall_is_said_at_start(plain: System) -> None:
    """The process names the policies that hide nothing while the firewall is off."""
    said = plain.deployment.flows[-1].log.read_text()
    assert "the firewall is off: clearances and labels hide nothing" in said
    assert "sources.boss" in said


def test_profiles(kitchen: System) -> None:
    """A missing profile is `balanced`, an unknown one too, with a warning; a known one is itself."""
    missing, unknown, known = kitchen.answers(
        [{"text": "oven"}, {"text": "oven", "profile": "turbo"}, {"text": "oven", "profile": "deep"}]
    )
    assert [answer["profile"] for answer in (missing, unknown, known)] == ["balanced", "balanced", "deep"]
    assert missing["warnings"] == known["warnings"] == []
    (warning,) = unknown["warnings"]
    assert "turbo" in warning


def test_a_query_without_namespace_is_in_the_default_one(kitchen: System) -> None:
    """Never in all of them, by whatever way it is answered."""
    for event in (
        {"text": "oven"},
        {"text": "oven", "profile": "fast"},
        {"subject": "ada"},
        {"filters": [{"field": "text", "op": "exists", "value": True}]},
    ):
        bare, said = kitchen.answers([{**event, "namespace": None, "debug": True}, event])
        assert ids(bare) == ids(said)
        assert "spy" not in ids(bare)
        assert bare["provenance"]["index_watermark"] == said["provenance"]["index_watermark"]


def test_collections_are_within_a_destination(kitchen: System) -> None:
    """A part of a destination holds its own documents alone; one that isn't configured is `invalid`."""
    events: list[Json] = [{}, {"collection": "notes"}, {"destination": "elsewhere"}, {"destination": "default"}]
    whole, notes, elsewhere, default = kitchen.answers([{"text": "oven", **event} for event in events])
    assert ids(notes) == ["note"]
    assert ids(elsewhere) == ["far"]
    assert set(ids(whole)) == set(ids(default))
    assert not set(ids(whole)) & {"note", "far"}
    wrong: list[Any] = [
        {"collection": "nowhere"},
        {"destination": "nowhere"},
        {"destination": "elsewhere", "collection": "notes"},
        {"collection": "documents"},
    ]
    ended = kitchen.together([{"text": "oven", **event} for event in wrong])
    assert [each.kind for each in ended] == ["invalid"] * len(wrong)


def test_texts_are_composed(kitchen: System) -> None:
    """A text in NFD is the same query as in NFC: it finds the same words, and is answered from the cache."""
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    first = kitchen.ask({"text": composed, "profile": "fast"})
    assert ids(first) == ["ovens"]
    again = kitchen.ask({"text": decomposed, "profile": "fast"})
    assert ids(again) == ["ovens"]
    assert again["retrieval_stage"] == "exact_cache"


def test_texts_are_bounded(kitchen: System) -> None:
    """8,192 characters are a query, whatever their bytes; one more is a dead letter `too_large`."""
    whole, long, wide = "oven " * 1638 + "ab", "oven " * 1638 + "abc", "😀" * 8192
    assert (len(whole), len(long)) == (8192, 8193)
    ended = kitchen.together([{"text": text, "profile": "fast"} for text in (whole, long, wide, wide + "é")])
    assert [each.kind for each in ended] == ["result", "too_large", "result", "too_large"]
    assert "bread" in ids(ended[0].value)
    assert leg(ended[2].value, "keyword") == ("skipped", "no_terms")
