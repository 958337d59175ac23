"""Stage 0, through the running flow: each refusal with its code, their order, and who is asking."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.kafka.broker import Broker
from schemas.result import DenialCode
from tests.integration.cascade import Json, System, ids, running
from tests.integration.cascade_sources import IDENTITY, REFUSABLE, RULES, by
from tests.integration.deployment import wait_until
from tests.schemas.settings.test_policies import mount

pytest_plugins = ["tests.integration.cascade_running"]
pytestmark = pytest.mark.slow

OVEN = {"text": "oven"}


def refused(answer: Json) -> str:
    """The code of an answer that is nothing but a refusal."""
    assert (answer["status"], answer["retrieval_stage"]) == ("denied", "policy")
    assert answer["results"] == answer["legs"] == answer["backends_used"] == answer["degraded"] == []
    assert (answer["total"], answer["has_more"], answer["next_cursor"]) == (0, False, None)
    assert answer["denied"]["reason"]
    return str(answer["denied"]["code"])


def test_every_code_is_tried() -> None:
    """The rules below, with the switch `read`, are all the codes, in their order."""
    assert list(DenialCode) == ["source_not_permitted_to_read", *RULES]


@pytest.mark.parametrize("code", RULES)
def test_a_refusal_and_its_code(kitchen: System, code: str) -> None:
    """A source that isn't allowed, or is denied, gets the code and asks nobody; one that is allowed gets an answer."""
    asked = {**REFUSABLE, "metadata": {"mine": 1}, "record": True}
    kitchen.qdrant.forget()
    for how in ("without", "denied", "both"):
        answer = kitchen.ask({**asked, "source": f"{code} {how}"})
        assert refused(answer) == code
        assert answer["metadata"] == {"mine": 1}
    assert kitchen.qdrant.asked == []
    assert kitchen.ask({**asked, "source": f"{code} allowed"})["status"] == "ok"


def test_the_codes_are_in_order(kitchen: System) -> None:
    """Of several reasons to refuse the first in the page's order is told."""
    sources = ["mute", *(f"{code} first" for code in RULES)]
    answers = kitchen.answers([{**REFUSABLE, "source": source} for source in sources])
    assert [refused(answer) for answer in answers] == list(DenialCode)


def test_a_refusal_comes_before_what_depends_on_the_configuration(kitchen: System) -> None:
    """A refused source learns nothing of recipes, collections or cursors: it is no dead letter."""
    events: list[Json] = [
        {"recipe": "nope"},
        {"overrides": {"score": {"alpha": 7}}},
        {"cursor": "tampered"},
        {"destination": "nowhere"},
        {"collection": "nowhere"},
        {"recipe": "rrf", "reflection_boost": 2.0},
    ]
    answers = kitchen.answers([{**OVEN, **event, "source": "read only"} for event in events])
    assert {refused(answer) for answer in answers} == {"source_not_permitted_to_read"}


def test_empty_lists_allow_all(kitchen: System) -> None:
    """A policy of empty lists refuses nothing."""
    assert ids(kitchen.ask({**REFUSABLE, "source": "empty", "namespace": "kitchen"})) == ["far"]


def test_an_unknown_source_gets_the_default_policy(kitchen: System) -> None:
    """A source that isn't configured and none at all are refused by the default; one that is inherits nothing of it."""
    event = {**OVEN, "namespace": "forbidden"}
    unknown, nobody, known = kitchen.answers([{**event, "source": name} for name in ("stranger", None, "empty")])
    assert refused(unknown) == refused(nobody) == "retrieval_firewall_denied"
    assert known["status"] == "ok"


def test_collections_are_destinations_of_a_policy(kitchen: System) -> None:
    """With a list of collections one must be named, and be of it; a denied one is refused, the whole isn't."""
    asked: list[Json] = [{}, {"collection": "notes"}, {"collection": "others"}]
    noted = kitchen.answers([{**OVEN, **event, "source": "noted"} for event in asked])
    assert [answer["status"] for answer in noted] == ["denied", "ok", "denied"]
    assert refused(noted[0]) == refused(noted[2]) == "destination_not_allowed"
    noteless = kitchen.answers([{**OVEN, **event, "source": "noteless"} for event in asked[:2]])
    assert [answer["status"] for answer in noteless] == ["ok", "denied"]


def test_a_profile_is_judged_as_it_is_used(kitchen: System) -> None:
    """An unknown profile is judged as `balanced`, which it would get."""
    events: list[Json] = [{"profile": "turbo"}, {"profile": None}, {"profile": "fast"}]
    answers = kitchen.answers([{**OVEN, **event, "source": "policy_denied without"} for event in events])
    assert [answer["status"] for answer in answers] == ["ok", "ok", "denied"]


def test_what_a_source_may_change(kitchen: System) -> None:
    """A policy's bounds on overrides hold for its source alone, and go before those of everybody."""
    change = {"overrides": {"score": {"alpha": 0.9}}}
    within = {"overrides": {"score": {"alpha": 0.7}}}
    other = {"overrides": {"dedupe": {"limit": 1}}}
    tuner = kitchen.together([{**OVEN, **event, "source": "tuner"} for event in (change, within, other)])
    assert [ended.kind for ended in tuner] == ["invalid", "result", "invalid"]
    assert kitchen.ask({**OVEN, **change})["status"] == "ok"


def test_a_source_has_a_decay_of_its_own(kitchen: System) -> None:
    """The policy's tier is the most specific one, for its source alone."""
    event = {"namespace": "log", "text": "harbor", "recipe": "decay", "debug": True}
    own, others = kitchen.answers([{**event, "source": "ageing"}, event])
    assert own["debug"]["decay"] == {"mode": "step", "half_life_days": 3.0, "over_sample_factor": 5.0}
    assert others["debug"]["decay"] == {"mode": "exponential", "half_life_days": 7.0, "over_sample_factor": 5.0}


def test_who_asks_is_known_by_a_header(vault: System) -> None:
    """The gateway's header says it, in any case; the event's word doesn't count, and without a header it's nobody."""
    event: Json = {"subject": "lamp", "limit": 50}

    def seen(headers: list[tuple[str, bytes]], **more: Any) -> bool:
        return "restricted" in ids(vault.ask({**event, **more}, headers))

    assert seen(by("restricted"))
    assert seen([(IDENTITY.upper(), b"restricted")])
    assert not seen([])
    assert not seen([(IDENTITY, b"")])
    assert not seen([("x-other", b"restricted")])
    assert not seen(by("stranger"))
    assert not seen([], source="restricted")
    assert not seen(by("public"), source="restricted")
    assert seen(by("restricted"), source="public")


def test_a_header_that_is_repeated_or_no_text_is_invalid(vault: System) -> None:
    """Nobody guesses which of two sources is meant: a dead letter."""
    for headers in (by("restricted") * 2, [*by("restricted"), (IDENTITY.title(), b"public")], [(IDENTITY, b"\xff")]):
        (ended,) = vault.together([{"subject": "lamp"}], headers)
        assert ended.kind == "invalid"
        assert ended.said.startswith(f"header {IDENTITY}")


def test_who_asks_is_known_by_the_topic(plain: System) -> None:
    """The topic's source has its policy, whatever the event or a header says."""
    events = [{"text": "sea"}, {"text": "sea", "source": "boss"}, {"text": "sea", "profile": "deep", "source": "boss"}]
    answers = plain.answers(events, by("boss"))
    assert [answer["status"] for answer in answers] == ["partial", "partial", "denied"]
    assert refused(answers[-1]) == "policy_denied"


def test_policies_of_files_change_while_both_flows_run(broker: Broker, tmp_path: Path) -> None:
    """As a ConfigMap changes: the next answers are by the new policy, no cached one is given; a wrong one is left."""
    mounted = tmp_path / "policies"
    mount(mounted, "1", {"a.json": '{"cook": {"clearance": "internal"}}'})
    sections = {
        "policies": {"files": [str(mounted)], "default": {"clearance": "internal"}},
        "firewall": {"enabled": True},
        "cache": {"watermark_timeout": 10.0},
    }
    documents = [
        {"id": "open", "namespace": "files", "text": "oven"},
        {"id": "kept", "namespace": "files", "text": "the oven of the kitchen", "classification": "internal"},
    ]
    asked = {**OVEN, "source": "cook"}
    with running(broker, tmp_path, sections, namespace="files") as system:
        system.write(documents)
        for _ in range(2):
            assert sorted(ids(system.ask(asked))) == ["kept", "open"]
        mount(mounted, "2", {"a.json": '{"cook": {"clearance": "public"}}'})
        wait_until(lambda: ids(system.ask(asked)) == ["open"])
        flow = system.deployment.flows[-1]
        mount(mounted, "3", {"a.json": '{"cook": {"clearnce": "internal"}}'})
        metrics = f"http://127.0.0.1:{flow.port}/metrics"
        wait_until(lambda: 'rankstream_policies_refused{flow="search"} 1.0' in httpx.get(metrics).text)
        assert flow.ready()
        assert ids(system.ask(asked)) == ["open"]
        mount(mounted, "4", {"a.json": '{"cook": {"read": false}}'})
        wait_until(lambda: system.ask(asked)["status"] == "denied")
