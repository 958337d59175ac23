"""Leaders: one item a key, until it is done."""

import pytest

from operators.caching.answer_cache import Coalescer


def test_a_key_has_its_leader_until_it_is_done() -> None:
    """Others ask for it by the same key, and nobody by another."""
    leaders = Coalescer[str]()
    leaders.lead(b"k", "first")
    leaders.lead(b"l", "other")
    assert [leaders.of(key) for key in (b"k", b"l", b"m")] == ["first", "other", None]
    assert len(leaders) == 2
    leaders.done(b"k")
    assert [leaders.of(key) for key in (b"k", b"l")] == [None, "other"]
    leaders.lead(b"k", "second")
    assert leaders.of(b"k") == "second"


def test_a_key_has_one_leader() -> None:
    """A second one raises ValueError, and the first goes on."""
    leaders = Coalescer[str]()
    leaders.lead(b"k", "first")
    with pytest.raises(ValueError, match="leader"):
        leaders.lead(b"k", "second")
    assert leaders.of(b"k") == "first"


def test_what_nobody_computes_may_be_done() -> None:
    """Once more is no error, and touches no other key."""
    leaders = Coalescer[str]()
    leaders.lead(b"k", "first")
    leaders.done(b"l")
    leaders.done(b"l")
    assert leaders.of(b"k") == "first"
