"""The parts of documents that results have, in the running flows with both caches on: over a broker and Qdrant's
stand-in, and with the engine in the process.
"""

import base64
import functools
import struct
import uuid
from collections.abc import Iterator
from typing import Any, Final

import pytest
from rich.console import Console

from bench.kafka.broker import Broker
from flows.assembly.delivery import connect
from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import embedded_settings, start_with_settings
from operators.query.result import members
from schemas.result import ResultEvent
from schemas.settings import load
from tests.integration.searching import Ask, searching

NAMESPACE: Final = "talks"
LONG: Final = "Nothing of interest was said that day. " * 40


def turn(number: int, text: str, **fields: Any) -> dict[str, Any]:
    """One message of a conversation."""
    own = {"id": f"t{number}", "turn": number, "talk": "a", "cost": number}
    own |= {"namespace": NAMESPACE, "destination": "default"}
    return {**own, "title": f"Turn {number}", "meta": {"author": "ada", "cost": 1}, "text": text, **fields}


DOCUMENTS: Final = [
    turn(1, "Good morning.", created_at="2026-01-01T00:00:00.000Z"),
    turn(2, "The café near the harbour is closed."),
    turn(3, f"{LONG}The lighthouses blink 🚀 at night. {LONG}"),
    turn(4, "Nobody answers.", created_at="2026-01-02T00:00:00.000Z"),
    turn(5, "A secret about lighthouses.", classification="restricted"),
    turn(6, "Another talk.", talk="b"),
    turn(7, f"{LONG[:390]}Two-wheelers can be rented at the station. {LONG[:390]}", talk="c"),
]
EVEN: Final = {
    "any_of": [{"field": "cost", "op": "any_of", "value": [2, 4, 6]}, {"field": "talk", "op": "eq", "value": "c"}]
}
ALL: Final = {"filters": [{"field": "turn", "op": "exists", "value": True}]}
SECTIONS: Final = {
    "rerank": {"kind": "none"},
    "firewall": {"enabled": True},
    "policies": {
        "sources": {
            "shop": {"hidden_fields": ["cost", "meta.cost", "title"], "return": {"text": "none", "passages": 1}},
            "mute": {"hidden_fields": ["text"]},
            "timeless": {"hidden_fields": ["created_at"]},
            "harbour": {"filters": [{"field": "talk", "op": "none_of", "value": ["b"]}, EVEN]},
        }
    },
    "profiles": {"short": {"return": {"text": 20, "fields": ["turn"]}}, "priced": {"group_by": "cost"}},
}
CONTEXT: Final = {"order_by": "turn", "group_by": "talk", "before": 1, "after": 1}
QDRANT: Final = {"context": CONTEXT, "indexes": {"talk": "keyword", "cost": "integer"}}


@pytest.fixture(scope="module", params=["stand-in", "engine in the process"])
def ask(request: pytest.FixtureRequest, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Ask one query and wait for its result, which holds to the contract."""
    directory = tmp_path_factory.mktemp("returned")
    if request.param == "stand-in":
        name = functools.partial("{1}-{0}".format, directory.name)
        with searching(broker, directory, name, DOCUMENTS, SECTIONS, QDRANT):
            kafka = load(directory / "0.yaml").kafka
            with QueryClient.connect(connect(kafka), kafka.topics) as client:
                yield functools.partial(ask_one, client)
        return
    qdrant = {"path": str(directory / "index"), "timeout": 20, **QDRANT}
    with start_with_settings(embedded_settings(directory / "index", {**SECTIONS, "qdrant": qdrant})) as running:
        index_once(running, "documents", lambda: enumerate(DOCUMENTS, 1), "1", directory, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            yield functools.partial(ask_one, client)


def ask_one(client: QueryClient, event: dict[str, Any]) -> dict[str, Any]:
    """The result of one query."""
    [result] = client.ask([{"query_id": str(uuid.uuid4()), "namespace": NAMESPACE, **event}], 30)
    ResultEvent.model_validate(result)
    return result


def first(ask: Ask, text: str, **event: Any) -> dict[str, Any]:
    """The first result of a query."""
    result = ask({"text": text, **event})
    assert result["status"] == "ok", result
    hit: dict[str, Any] = result["results"][0]
    return hit


def cached(ask: Ask, event: dict[str, Any]) -> dict[str, Any]:
    """The answer that the cache of identical queries gives, once it knows how far the namespace is indexed."""
    results = (ask(event) for _ in range(50))
    return next(result for result in results if result["retrieval_stage"] == "exact_cache")


def test_a_query_that_says_nothing_gets_the_whole_document(ask: Ask) -> None:
    """As it ever was: no passages, no neighbours, the text and all fields."""
    hit = first(ask, "lighthouse")
    assert hit["text"] == DOCUMENTS[2]["text"]
    assert hit["payload"] == {name: value for name, value in DOCUMENTS[2].items() if name not in {"id", "text"}}
    assert hit.keys() == {"id", "rank", "score", "relevance", "text", "payload", "legs"}


def test_a_text_without_the_words_has_the_passage_that_says_it(ask: Ask) -> None:
    """The document is found by its sense, and its passage is the one with the sense; nothing is highlighted."""
    result = ask({"text": "bicycle hire", "recipe": "vector", "limit": 10, "return": {"passages": 1, "text": 60}})
    [hit] = [each for each in result["results"] if each["id"] == "t7"]
    [passage] = hit["passages"]
    assert "Two-wheelers can be rented at the station." in passage["text"]
    assert passage["highlights"] == []
    assert DOCUMENTS[6]["text"][passage["start"] :].startswith(passage["text"])
    assert passage["text"].startswith(hit["text"])
    assert (result["status"], result["degraded"]) == ("ok", [])


def test_passages_fields_and_text(ask: Ask) -> None:
    """The passage is where the word is, by its stem, with offsets that count emoji once; a cache gives it again."""
    returned = {"fields": ["meta.author"], "text": 25, "passages": 2}
    event = {"text": "lighthouse", "return": returned}
    for result in (ask(event), cached(ask, event)):
        hit = result["results"][0]
        (passage,) = hit["passages"]
        assert hit["payload"] == {"meta": {"author": "ada"}}
        assert DOCUMENTS[2]["text"][passage["start"] :].startswith(passage["text"])
        assert [passage["text"][a:b] for a, b in passage["highlights"]] == ["lighthouses"]
        assert hit["text"] == "The lighthouses blink 🚀"
    # `cafe` is near to `café`.
    assert first(ask, "cafe harbour", **{"return": {"passages": 1}})["passages"][0]["highlights"] == [[4, 8], [18, 25]]


def test_defaults_of_profile_and_policy(ask: Ask) -> None:
    """The query's word counts before the policy's, and that before the profile's."""
    assert first(ask, "lighthouse", profile="short")["payload"] == {"turn": 3}
    shop = first(ask, "lighthouse", source="shop", profile="short")
    assert (shop["text"], len(shop["passages"]), shop["payload"]) == (None, 1, {"turn": 3})
    assert first(ask, "lighthouse", source="shop", **{"return": {"text": "full"}})["text"] == DOCUMENTS[2]["text"]


def test_no_cursor_holds_a_time_that_is_hidden(ask: Ask) -> None:
    """A lookup gives the newest first, and each record by id where the source does not see when it was made."""
    newest = struct.pack(">q", 1767312000000)

    def pages(source: str) -> tuple[list[str], list[bytes]]:
        found: list[str] = []
        cursors: list[bytes] = []
        event: dict[str, Any] = {**ALL, "limit": 1, "source": source}
        while True:
            result = ask(event)
            found += [hit["id"] for hit in result["results"]]
            if not result["has_more"]:
                return found, cursors
            event["cursor"] = result["next_cursor"]
            cursors.append(base64.b64decode(event["cursor"] + "==", b"-_"))

    seen, cursors = pages("anybody")
    assert seen[:2] == ["t4", "t1"]
    assert newest in cursors[0]
    timeless, hidden = pages("timeless")
    assert sorted(timeless) == sorted(seen)
    assert not any(newest in each for each in hidden)


def test_filters_of_a_policy_hide_documents_and_neighbours(ask: Ask) -> None:
    """A source has what passes them in lookups and searches, from the caches, too, and among neighbours."""
    allowed = {"t2", "t4", "t7"}
    assert {hit["id"] for hit in ask({**ALL, "limit": 20, "source": "harbour"})["results"]} == allowed
    event = {"text": "lighthouses café", "limit": 20, "source": "harbour", "return": {"neighbours": 1}}
    for result in (ask(event), cached(ask, event)):
        assert (result["status"], result["removed_by_firewall"]) == ("ok", 0)
        assert {hit["id"] for hit in members(result)} <= allowed
        [hit] = [each for each in result["results"] if each["id"] == "t2"]
        assert hit["neighbours"] == {"before": [], "after": []}
    everybody = ask({**event, "source": "anybody"})
    [hit] = [each for each in everybody["results"] if each["id"] == "t2"]
    assert [each["id"] for side in hit["neighbours"].values() for each in side] == ["t1", "t3"]


def test_hidden_fields_are_nowhere(ask: Ask) -> None:
    """Not in results, pools or explanations; no filter, order or column may use them, and no cache gives them."""
    everybody = first(ask, "lighthouse")
    assert everybody["payload"]["cost"] == 3
    result = ask({"text": "lighthouse", "source": "shop", "record": True, "explain": True})
    assert result["results"][0]["payload"] == {
        "turn": 3,
        "talk": "a",
        "namespace": NAMESPACE,
        "destination": "default",
        "meta": {"author": "ada"},
    }
    for leg in result["pool"]["legs"]:
        assert all("cost" not in hit["payload"] and "title" not in hit["payload"] for hit in leg["hits"])
    for stage in result["results"][0]["explanation"]["stages"]:
        assert stage["stage"] != "coverage" or stage["values"] == {}
    wanted = {"field": "cost", "op": "eq", "value": 3}
    for event, field in (
        ({"text": "lighthouse", "filters": [wanted]}, "filters.0.field"),
        ({"filters": [{**wanted, "field": "meta.cost"}]}, "filters.0.field"),
        ({"text": "lighthouse", "filters": [{"none_of": [wanted]}]}, "filters.0.none_of.0.field"),
        ({"text": "lighthouse", "order_by": {"field": "cost"}}, "order_by.field"),
        ({"filters": [{"field": "meta", "op": "nested", "value": [wanted]}]}, "filters.0.value.0.field"),
        ({"filters": [{**wanted, "field": "turn"}], "order_by": {"field": "cost"}}, "order_by.field"),
    ):
        refused = ask({**event, "source": "shop"})
        assert (refused["status"], refused["error"]["field"]) == ("invalid", field)
    named = {"text": "title:lighthouse", "recipe": "keyword"}
    assert ask(named)["results"] == []
    assert [hit["id"] for hit in ask({**named, "source": "shop"})["results"]] == ["t3"]
    mute = first(ask, "lighthouse", source="mute", **{"return": {"passages": 1, "neighbours": 1}})
    assert (mute["text"], mute["passages"], mute["neighbours"]["before"]) == (None, [], [{"id": "t2", "text": None}])


def test_neighbours_in_their_order(ask: Ask) -> None:
    """A result has those beside it in its group, and none that the query may not see; a cache gives them again."""
    texts = {document["id"]: document["text"] for document in DOCUMENTS}
    event = {"text": "lighthouse", "return": {"neighbours": 1, "text": "none"}}
    for result in (ask(event), cached(ask, event)):
        assert result["results"][0]["neighbours"] == {
            "before": [{"id": "t2", "text": texts["t2"]}],
            "after": [{"id": "t4", "text": texts["t4"]}],
        }
    last = first(ask, "nobody answers", **{"return": {"neighbours": 1}})
    assert last["neighbours"] == {"before": [{"id": "t3", "text": texts["t3"]}], "after": []}
    assert first(ask, "another", **{"return": {"neighbours": 1}})["neighbours"] == {"before": [], "after": []}
    refused = ask({"text": "lighthouse", "return": {"neighbours": 2}})
    assert refused["error"]["field"] == "return.neighbours"
    assert "set its before or after higher" in refused["error"]["reason"]


def test_documents_of_groups_have_the_same_parts(ask: Ask) -> None:
    """Each document of a group has the passages, fields and neighbours that the query asks for, and nothing that is
    hidden, from the caches, too; a hidden field is no key of groups, whoever asks to group by it.
    """
    event = {"text": "lighthouse", "source": "shop", "group_by": "talk", "group_size": 4, "explain": True}
    event |= {"return": {"fields": ["turn", "cost", "meta", "title"], "text": "none", "passages": 1, "neighbours": 1}}
    texts = {document["id"]: document["text"] for document in DOCUMENTS}
    for result in (ask(event), cached(ask, event)):
        assert [(hit["group"]["key"], hit["group"]["count"]) for hit in result["results"]] == [
            ("a", 4),
            ("b", 1),
            ("c", 1),
        ]
        assert {each["id"] for each in members(result)} == {"t1", "t2", "t3", "t4", "t6", "t7"}
        for each in members(result):
            turn = int(each["id"][1:])
            assert (each["text"], each["payload"]) == (None, {"turn": turn, "meta": {"author": "ada"}})
            (passage,) = each["passages"]
            assert texts[each["id"]].startswith(passage["text"], passage["start"])
            near = [*each["neighbours"]["before"], *each["neighbours"]["after"]]
            beside = {"t1": ["t2"], "t2": ["t1", "t3"], "t3": ["t2", "t4"], "t4": ["t3"], "t6": [], "t7": []}
            assert [one["id"] for one in near] == beside[each["id"]]
            stages = {stage["stage"]: stage["values"] for stage in each["explanation"]["stages"]}
            assert stages.get("coverage", {}) == {}
    assert ask({**event, "source": None, "group_by": "cost"})["results"][0]["group"]["key"] == 3
    for grouped in ({"group_by": "cost"}, {"group_by": None, "profile": "priced"}):
        refused = ask({**event, **grouped})
        assert (refused["status"], refused["error"]["field"]) == ("invalid", "group_by")
        assert "hides" in refused["error"]["reason"]
    assert ask({**event, "group_by": None, "profile": "priced", "group_size": 0})["status"] == "ok"
