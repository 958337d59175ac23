"""Divided requests whose policy is content with a part, in a real dataflow: what came back in time is used."""

import time
from collections.abc import Iterator

import pytest

from schemas.errors import BackendBadResponse
from tests.operators.runtime.test_async_stage_slices import Backend, Item, ran


@pytest.mark.parametrize(("fault", "reason"), [("wrong", "bad_response"), ("broken", "unavailable")])
def test_what_came_before_a_failed_part_is_used(fault: str, reason: str) -> None:
    """The parts before it are waited for, those behind it are cancelled, and the outcome names the reason."""
    backend = Backend({"a": 0.2, "e": 60})
    setattr(backend, fault, "c")
    assert ran([[Item("abcdef")]], backend, 2, least=2) == {"abcdef": f"AB {reason}"}
    assert backend.of("cancelled") == [["ef"]]


def test_without_enough_before_it_a_failed_part_fails_its_request() -> None:
    """Nothing is of use behind a gap, however much was answered there."""
    outcomes = ran([[Item("abcdef")]], Backend({"e": 60}, wrong="a"), 2, least=2)
    assert isinstance(outcomes["abcdef"], BackendBadResponse)
    outcomes = ran([[Item("abcdef")]], Backend({"e": 60}, wrong="c"), 2, least=3)
    assert isinstance(outcomes["abcdef"], BackendBadResponse)


def test_what_came_back_in_time_is_used() -> None:
    """At its deadline a request ends with the parts that it has from the first on, and names what was too short."""

    def batches() -> Iterator[list[Item]]:
        yield [Item("abcdef", time.monotonic() + 4.0), Item("uvwxyz")]

    backend = Backend({"e": 60, "w": 60})
    outcomes = ran(batches(), backend, 2, 0, timeout=6, least=2)
    assert outcomes == {"abcdef": "ABCD deadline", "uvwxyz": "UV timeout"}
    assert sorted(backend.of("cancelled")) == [["ef"], ["wx"]]
