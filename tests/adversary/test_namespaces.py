"""No tenant is told of another, whatever Qdrant answers, and whatever becomes of a collection; firewall on and off."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from bench.kafka.broker import Broker
from tests.adversary.lying import Lie
from tests.adversary.tenants import EVENTS, POINTS, TENANTS, Tenants, running
from tests.integration.deployment import wait_until
from tests.tiers import sized

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=[False, True], ids=["firewall off", "firewall on"])
def tenants(
    request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tenants]:
    """The flow with both tenants' documents."""
    directory = tmp_path_factory.mktemp("tenants")
    with running(broker, directory, lambda word: f"{word}-{directory.name}", firewall=request.param) as tenants:
        yield tenants


def given(answers: list[dict[str, Any]]) -> list[int]:
    """The number of results in each answer."""
    return [len(answer["results"]) for answer in answers]


def test_each_tenant_is_given_its_own(tenants: Tenants) -> None:
    """All of it, twice: the second time from the payload cache. Nothing is removed."""
    for tenant in TENANTS * 2:
        answers = tenants.ask(tenant, "mixed")
        assert given(answers) == [min(event.get("limit", POINTS), POINTS) for event in EVENTS]
        assert {answer["status"] for answer in answers} == {"ok"}
        assert sum(answer["removed_by_firewall"] for answer in answers) == 0
    assert any("canary" in str(body) for body in tenants.backends.reranker.requests)
    assert tenants.leaks() == []


@pytest.mark.parametrize("lie", get_args(Lie))
def test_a_server_that_answers_with_anothers_points(tenants: Tenants, lie: Lie) -> None:
    """Hits, payloads, lookups and their next pages: what is another's is removed and counted, and never cached."""
    first = [answer for answer in tenants.ask("blue", "mixed") if answer["next_cursor"]]
    assert first
    pages = [
        {**event, "cursor": answer["next_cursor"]}
        for event, answer in zip([each for each in EVENTS if "limit" in each], first, strict=True)
    ]
    before, tenants.liar.lie = tenants.liar.told, lie
    try:
        removed = 0
        for tenant in (*TENANTS, *reversed(TENANTS)):
            removed += sum(answer["removed_by_firewall"] for answer in tenants.ask(tenant, "mixed"))
        removed += sum(answer["removed_by_firewall"] for answer in tenants.ask("blue", "mixed", pages))
    finally:
        tenants.liar.lie = None
    assert tenants.liar.told > before
    assert removed or lie == "swapped payloads"
    assert tenants.leaks() == []
    for tenant in TENANTS:
        assert given(tenants.ask(tenant, "mixed"))[0] == POINTS
    assert tenants.leaks() == []


def test_a_collection_that_is_made_again_for_another_tenant(tenants: Tenants) -> None:
    """With the same points in the same versions: neither the new tenant is told of the old one, nor the other way."""
    assert given(tenants.ask("red", "shared"))[0] == POINTS
    for maker, other in (("blue", "red"), ("red", "blue")):
        tenants.fill("shared", maker, remade=True)
        # At once, before anybody has looked again at what the collection is.
        assert given(tenants.ask(maker, "shared"))[0] == POINTS
        assert not any(given(tenants.ask(other, "shared")))
    assert tenants.leaks() == []


def test_an_alias_that_is_given_to_another_tenants_collection(tenants: Tenants) -> None:
    """The payloads of its last target are nobody's who asks the next one."""
    assert given(tenants.ask("red", "live"))[0] == POINTS
    for target, other in (("blue", "red"), ("red", "blue"), ("blue", "red"))[: sized(2, nightly=3)]:
        tenants.point("live", target)
        # Until the flow looks again what the name stands for, all answers are those of the last target.
        wait_until(lambda target=target: given(tenants.ask(target, "live"))[0] == POINTS)
        assert not any(given(tenants.ask(other, "live")))
    assert tenants.leaks() == []
