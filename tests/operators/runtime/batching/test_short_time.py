"""Short time: a request is answered in part in place of not at all, and tenants don't take each other's time."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.runtime.batching.backlog import Backlog, PendingRequest, Slice
from tests.operators.runtime.batching.simulation import LATE, Arrival, Simulation
from tests.operators.runtime.batching.test_backlog import Slices

UNITS = 50


def each_unit(seconds: float, fixed: float = 0.0) -> Callable[[int], float]:
    """A server that takes so long for a unit, and a fixed time for a call."""
    return lambda units: fixed + seconds * units


def backlog(size: int = 256, slots: int = 1, *, least: int | None = 2, divides: bool = True) -> Backlog[str, str]:
    """A backlog that shortens requests."""
    return Backlog(Slices(size, divides, least), slots)


def learnt(took: float, *, busy: bool = True, least: int | None = 2, divides: bool = True) -> Backlog[str, str]:
    """One whose calls of 50 units took so long, with a second slot free."""
    made = backlog(slots=2, least=least, divides=divides)
    for _ in range(4):
        made.put(request("before", 1e9))
        made.take(0.0)
        made.on_call_end(UNITS, took)
    if busy:
        made.put(request("under way", 1e9))
        made.take(0.0)
    return made


def request(tenant: str, deadline: float, units: int = UNITS) -> PendingRequest[str, str]:
    """A request of a tenant."""
    return PendingRequest(tenant[:1] * units, deadline, units, tenant)


def taken(slices: Sequence[Slice[str, str]]) -> dict[str, int]:
    """The number of units that a call has of each tenant."""
    return {str(each.request.tenant): each.stop - each.start for each in slices}


def even(tenant: str, a_second: float, seconds: float, timeout: float = 1.0, units: int = UNITS) -> list[Arrival]:
    """Requests of a tenant at even distances."""
    count = int(a_second * seconds)
    return [Arrival(number / a_second + 1e-6 * ord(tenant[0]), units, tenant, timeout) for number in range(count)]


def depths(found: dict[Arrival, int], tenant: str, after: float = 1.0) -> list[int]:
    """The share of the tenant's requests that were answered, once the server is known."""
    return [depth for arrival, depth in found.items() if arrival.tenant == tenant and arrival.at >= after]


# One request


@pytest.mark.parametrize("busy", [False, True])
def test_the_depth_follows_from_the_time_left(busy: bool) -> None:
    """By hand: 50 units take half a second, so .8 of .25 s are for 20 units, .8 of .5 s for 40, and one second for
    all.
    """
    for left, units in ((0.25, 20), (0.5, 40), (1.0, 50)):
        known = learnt(0.5, busy=busy)
        known.put(request("a", left))
        assert taken(known.take(0.0)) == {"a": units}


def test_little_time_is_not_hopeless() -> None:
    """While the backend is busy: what has time for two units is sent, what has not is hopeless."""
    known = learnt(0.5)
    late, soon = request("late", 0.019), request("soon", 0.03)
    known.put(late)
    known.put(soon)
    assert known.expired(0.0) == [late]


def test_what_is_never_shortened_is_all_or_nothing() -> None:
    """A whole request is sent or none if a part is no answer; less time than the quickest call took is hopeless."""
    known = learnt(0.5, least=None)
    short, long = request("short", 0.49), request("long", 0.51)
    known.put(short)
    known.put(long)
    assert known.expired(0.0) == [short]
    known.truncate(short, 0, LATE)
    assert taken(known.take(0.0)) == {"long": 50}


def test_the_rest_may_go_in_another_call() -> None:
    """The units that one call can't answer in time go in a second one at the same time, if a slot is free."""
    known = learnt(0.5, busy=False)
    known.put(request("a", 0.25))
    assert [taken(known.take(0.0)) for _ in range(3)] == [{"a": 20}, {"a": 20}, {}]


def test_what_is_not_divided_is_cut() -> None:
    """If all units must be in one call, this has what can be answered in time, and the rest is given up."""
    known = learnt(0.5, divides=False)
    short = request("a", 0.25)
    known.put(short)
    assert taken(known.take(0.0)) == {"a": 20}
    assert (short.units, short.whole, known.take(0.0)) == (20, False, [])


def test_a_call_is_answered_in_time_for_the_most_urgent() -> None:
    """It carries no more than that: the patient request goes in part, and waits with the rest."""
    known = learnt(0.5)
    known.put(request("urgent", 0.75))
    known.put(request("patient", 10.0))
    assert taken(known.take(0.0)) == {"urgent": 50, "patient": 10}


# Many requests


def test_with_time_for_all_nothing_is_cut() -> None:
    """Requests at half of what the server can do: all are answered whole, in calls as without a reckoning of time."""
    arrivals = even("a", 10, 10)
    shortening = Simulation(backlog(), each_unit(0.001))
    assert set(shortening.run(arrivals).values()) == {UNITS}
    plain = Simulation(backlog(least=None), each_unit(0.001), None)
    plain.run(arrivals)
    assert shortening.calls == plain.calls


@pytest.mark.parametrize("fixed", [0.0, 0.01])
@pytest.mark.parametrize("load", [1.5, 2.0, 4.0])
def test_too_much_is_served_in_parts(load: float, fixed: float) -> None:
    """At more than the server can do nobody is lost, and what it can do is shared: each has about its part."""
    arrivals = even("a", load * 20, 8)
    served = Simulation(backlog(), each_unit(0.001, fixed))
    found = depths(served.run(arrivals), "a", 3.0)
    assert min(found) >= 2
    assert sum(found) / len(found) > 0.8 * UNITS / load / (1 + 4 * fixed)
    plain = Simulation(backlog(least=None), each_unit(0.001, fixed), None)
    lost = depths(plain.run(arrivals), "a", 3.0).count(0)
    assert lost > len(found) * (1 - 1.1 / load)


def test_half_of_the_time_is_for_nearly_half_of_the_units() -> None:
    """By hand: half of the time that 50 units need is planned with for 20, and what is left of it then for 4 more."""
    full = each_unit(0.01)(UNITS)
    arrivals = [Arrival(float(second), UNITS, "a", 4 * full if second < 4 else full / 2) for second in range(40)]
    found = Simulation(backlog(), each_unit(0.01)).run(arrivals)
    assert set(depths(found, "a", 4.0)) == {24}


def test_a_server_that_becomes_slower_is_noticed() -> None:
    """The first requests that it can't answer in time teach what the next ones can have."""
    answered = iter(range(1000))
    served = Simulation(backlog(), lambda units: units * (0.001 if next(answered) < 20 else 0.02))
    found = depths(served.run(even("a", 1, 60, 0.5)), "a", 20.0)
    assert found.count(0) <= 6
    assert min(found[-30:]) >= 10


# Tenants


@pytest.mark.parametrize(("least", "divides"), [(2, True), (2, False), (None, False)])
@pytest.mark.parametrize("flood", [2.0, 10.0])
def test_a_flood_takes_nothing_from_others(flood: float, least: int | None, divides: bool) -> None:
    """One tenant asks for many times what the server can do: the other's requests are answered as if it were alone."""
    quiet = even("quiet", 4, 6)
    alone = Simulation(backlog(200, least=least, divides=divides), each_unit(0.001), least).run(quiet)
    flooded = Simulation(backlog(200, least=least, divides=divides), each_unit(0.001), least).run(
        [*quiet, *even("flood", flood * 20, 6)]
    )
    assert depths(alone, "quiet") == depths(flooded, "quiet") == [UNITS] * len(depths(alone, "quiet"))
    # What is left is the other's, whole or in parts.
    served = sum(depths(flooded, "flood"))
    assert served > 0.7 * 5 * (1000 - 4 * UNITS)


def test_floods_share_equally() -> None:
    """Three tenants that all want more than their part get the same, however much more they want."""
    arrivals = [*even("a", 40, 8), *even("b", 80, 8), *even("c", 120, 8)]
    found = Simulation(backlog(), each_unit(0.001)).run(arrivals)
    served = [sum(depths(found, tenant, 2.0)) for tenant in "abc"]
    assert max(served) < 1.15 * min(served)
    assert sum(served) > 0.8 * 6 * 1000


def test_what_was_not_asked_for_is_no_credit() -> None:
    """A tenant that comes late to a flood gets its part from then on, and does not push out who was there."""
    early = even("early", 60, 12)
    late = [Arrival(each.at + 6, each.units, each.tenant, each.timeout) for each in even("later", 60, 6)]
    found = Simulation(backlog(), each_unit(0.001)).run([*early, *late])
    served = [
        sum(depth for each, depth in found.items() if each.tenant == name and each.at > 7)
        for name in ("early", "later")
    ]
    assert max(served) < 1.25 * min(served)


def test_without_overload_the_earliest_deadline_goes_first() -> None:
    """Whoever has been served most: as long as all can be served in time, tenants make no difference."""
    known = learnt(0.5)
    known.put(request("patient", 90.0))
    known.put(request("urgent", 10.0))
    assert next(iter(taken(known.take(0.0)))) == "urgent"


@given(st.integers(0, 2**32), st.sampled_from([None, 2, 5]), st.booleans(), st.integers(1, 3))
def test_whatever_comes_leaves_with_what_it_has(seed: int, least: int | None, divides: bool, slots: int) -> None:
    """Random arrivals, sizes, times and tenants: each leaves once; one that is never shortened whole or not at all."""
    random, divides = Random(seed), divides or least is None
    arrivals = [
        Arrival(random.uniform(0, 3), random.randint(1, 30), random.choice("abc"), random.choice([0.05, 0.3, 1.0]))
        for _ in range(60)
    ]
    takes = each_unit(random.choice([0.0005, 0.005]), random.choice([0.0, 0.02]))
    found = Simulation(backlog(40, slots, least=least, divides=divides), takes, least).run(arrivals)
    assert found.keys() == set(arrivals)
    for arrival, depth in found.items():
        assert depth <= arrival.units
        assert least is not None or depth in (0, arrival.units)
