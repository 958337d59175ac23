"""Experiments in the running search flow, with Qdrant's engine, MiniLM and its reranker."""

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.process.embedded import Embedded, embedded_settings, start_with_settings
from operators.delivery.client import ProducerRecord, TopicReader
from operators.evaluation.comparison import rank_biased_overlap
from operators.experiments.impression import Impression, TokenCodec
from operators.experiments.team_draft import TeamDraft, team_draft
from schemas.preference import PairedRankings
from schemas.result import ResultEvent
from tests.integration.deployment import wait_until

WORDS: Final = ("television", "screen", "lamp", "light", "cinema", "wall", "sound", "cable", "remote", "stand")
DOCUMENTS: Final[list[dict[str, Any]]] = [
    {
        "id": f"d{number}",
        "title": f"{WORDS[number % 10].title()} {WORDS[number * 7 % 10]}",
        "text": f"A {WORDS[number * 3 % 10]} with a {WORDS[number // 3 % 10]}, for the {WORDS[number % 4]}.",
        "price": number,
        "importance": number * 5 % 7 / 7,
        "created_at": 1_700_000_000 + number * 86_400,
    }
    for number in range(40)
]
SECRET: Final = "a secret of the tests"
TWO: Final = {"score": {"weights": {"vector": 0.9, "keyword": 0.1}}}
LISTED: Final = {"score": {"weights": {"vector": 0.4, "keyword": 0.2, "structured": 0.9}}}
EXPERIMENTS: Final[dict[str, dict[str, Any]]] = {
    "shadowed": {"recipe": "other", "share": 1, "sources": ["watched"], "namespaces": ["shop"]},
    "listed": {"recipe": "listed", "share": 1, "sources": ["listing"]},
    "mixed": {"recipe": "other", "share": 1, "mode": "interleave", "sources": ["user"]},
    "mixed_legs": {"recipe": "listed", "share": 1, "mode": "interleave", "sources": ["tourist"]},
    "half": {"recipe": "other", "share": 0.5, "mode": "interleave", "sources": ["some"]},
    "costly": {"recipe": "hybrid", "share": 1, "sources": ["cheap"]},
}
SETTINGS: Final[dict[str, Any]] = {
    "kafka": {"topics": {"experiments": "experiments", "rules": "rules"}},
    "defaults": {"namespace": "shop"},
    "qdrant": {"indexes": {"price": "float"}},
    "recipes": {
        # It reads a field that `hybrid` does not.
        "other": {"stages": [TWO, {"coverage": {"weight": 0.9}}, "rerank", {"composite": {"importance_scale": 1}}]},
        "listed": {"stages": [LISTED, "dedupe"]},
        "plain": {"stages": ["score"]},
    },
    "profiles": {"fresh": {"caches": []}},
    "experiments": EXPERIMENTS,
}

_NUMBERS = itertools.count()


@dataclass
class Shop:
    """The running flow, and what its experiments wrote."""

    running: Embedded
    client: QueryClient
    reader: TopicReader
    comparisons: dict[str, list[PairedRankings]] = field(default_factory=dict)

    def ask(self, text: str, **event: Any) -> dict[str, Any]:
        """The result of one query, which must hold to the contract."""
        asked = {"query_id": f"q{next(_NUMBERS)}", "text": text, "timeout_ms": 30_000, "profile": "fresh", **event}
        [result] = self.client.ask([{"limit": 5, **asked}], 60)
        ResultEvent.model_validate(result)
        return result

    def whole(self, text: str, recipe: str = "hybrid", **event: Any) -> list[str]:
        """All documents by one recipe, best first, without an experiment."""
        return ids(self.ask(text, recipe=recipe, limit=100, **event))

    def compared(self, result: Mapping[str, Any]) -> PairedRankings:
        """The one comparison of a query: it is there when its result is."""
        wait_until(lambda: result["query_id"] in self.read(), 20)
        [found] = self.comparisons[result["query_id"]]
        return found

    def read(self) -> Mapping[str, list[PairedRankings]]:
        """All comparisons that are there, by query."""
        for record in self.reader.poll(0.2):
            assert record.value is not None
            found = PairedRankings.model_validate_json(record.value)
            assert record.key == found.query_id.encode()
            self.comparisons.setdefault(found.query_id, []).append(found)
        return self.comparisons


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The search flow with the documents indexed."""
    directory = tmp_path_factory.mktemp("experiments")
    (secret := directory / "secret").write_text(SECRET)
    settings = embedded_settings(directory, {**SETTINGS, "cursor": {"signing_secret_file": secret}})
    with start_with_settings(settings) as running:
        index_once(running, "documents", lambda: enumerate(DOCUMENTS, 1), "1", directory, Console(quiet=True))
        with (
            running.searching(),
            QueryClient.connect(running.kafka, running.settings.kafka.topics) as client,
            closing(running.kafka.bounded_reader("experiments", from_end=True)) as reader,
        ):
            made = Shop(running, client, reader)
            wait_until(lambda: made.ask("stand")["provenance"]["index_watermark"] is not None, 20)
            yield made


def ids(result: Mapping[str, Any]) -> list[str]:
    """The documents, best first."""
    return [hit["id"] for hit in result["results"]]


OWN: Final = {"query_id", "result_id", "provenance"}


def without_own(result: Mapping[str, Any]) -> bytes:
    """A result without what every query has of its own."""
    provenance = {key: each for key, each in result["provenance"].items() if key not in {"experiment", "source", "now"}}
    return orjson.dumps([{key: each for key, each in result.items() if key not in OWN}, provenance])


NOW: Final[dict[str, Any]] = {"now": 1_760_000_000}


def test_a_shadow_leaves_results_as_they_are(shop: Shop) -> None:
    """Byte for byte those of a query in no experiment, explanations too; the experiment is in the provenance alone."""
    for text in ("television", "screen for the wall", "remote"):
        # A cursor would be another source's.
        asked = {"explain": True, "limit": 100, **NOW}
        plain = shop.ask(text, **asked)
        for source, name in (("watched", "shadowed"), ("listing", "listed")):
            shadowed = shop.ask(text, source=source, **asked)
            assert without_own(shadowed) == without_own(plain)
            assert shadowed["provenance"]["experiment"] == name
        assert "experiment" not in plain["provenance"]


@pytest.mark.parametrize(("source", "recipe"), [("watched", "other"), ("listing", "listed")])
def test_a_shadow_compares_with_the_other_recipe(shop: Shop, source: str, recipe: str) -> None:
    """The other list is that of a query by the other recipe, also where that one asks a leg more."""
    result = shop.ask("light of the screen", source=source, **NOW)
    found = shop.compared(result)
    assert found.a == shop.whole("light of the screen", **NOW)[:20]
    assert found.b == shop.whole("light of the screen", recipe, **NOW)[:20]
    assert found.a != found.b
    assert found.overlap == rank_biased_overlap(found.a, found.b)
    assert [each.id for each in found.page] == ids(result)
    assert {each.side for each in found.page} == {"a"}
    assert (found.mode, found.namespace, found.calls) == ("shadow", "shop", int(recipe == "listed"))
    # A tenant's text goes there alone where the experiment is for named tenants.
    assert found.text == ("light of the screen" if source == "watched" else None)


@pytest.mark.parametrize(("source", "recipe"), [("user", "other"), ("tourist", "listed")])
def test_lists_are_mixed_by_team_draft(shop: Shop, source: str, recipe: str) -> None:
    """All documents of both, the drafted ones first; the explanation of each is that of its own side."""
    result = shop.ask("television", source=source, limit=100, explain=True, **NOW)
    name = result["provenance"]["experiment"]
    a = shop.ask("television", limit=100, explain=True, **NOW)
    b = shop.ask("television", recipe=recipe, limit=100, explain=True, **NOW)
    sides = team_draft(ids(a), ids(b), TeamDraft.of(name, result["query_id"], 0).seed)
    assert ids(result)[: len(sides)] == [*sides]
    assert {*ids(result)} == {*ids(a), *ids(b)}
    assert ids(result) not in (ids(a), ids(b))
    by_side = {"a": {hit["id"]: hit for hit in a["results"]}, "b": {hit["id"]: hit for hit in b["results"]}}
    for hit in result["results"][: len(sides)]:
        own = by_side[sides[hit["id"]]][hit["id"]]
        assert (hit["score"], hit["explanation"]) == (own["score"], own["explanation"])
        assert hit["explanation"]["stages"][-1]["output"] == hit["score"]
    found = shop.compared(result)
    assert (found.a, found.b) == (ids(a)[:20], ids(b)[:20])
    assert {each.id: each.side for each in found.page} == sides


def test_tokens_name_what_was_shown(shop: Shop) -> None:
    """Each drafted result has one of its own; side, rank from 0, id, query and namespace come back from it."""
    before = time.time() * 1000
    result = shop.ask("cinema", source="user")
    found, tokens = shop.compared(result), TokenCodec(SECRET.encode())
    assert found.issued == pytest.approx(before, abs=60_000)
    read = [tokens.read(hit["token"]) for hit in result["results"]]
    query = result["query_id"], "shop", found.issued
    expected = [Impression("mixed", each.side, rank, each.id, *query) for rank, each in enumerate(found.page)]
    assert read == expected
    assert {each.side for each in read} == {"a", "b"}
    assert all("token" not in hit for hit in shop.ask("cinema", source="watched")["results"])


def test_a_query_that_comes_again_has_the_same_page(shop: Shop) -> None:
    """With the same id the same order; with other ids both orders come."""
    same = [ids(shop.ask("wall", source="user", query_id="again", **NOW)) for _ in range(2)]
    assert same[0] == same[1]
    assert len({tuple(ids(shop.ask("wall", source="user", **NOW))) for _ in range(12)}) > 1


@pytest.mark.parametrize("policy", ["strict", "continue"])
def test_pages_continue_the_draft(shop: Shop, policy: str) -> None:
    """Whatever id the further pages have, the pages are the whole list; tokens count ranks on, from the first page."""
    for query_id in ("paged", "paged too"):
        asked = {"source": "tourist", **NOW}
        whole = shop.ask("sound", query_id=query_id, limit=100, **asked)
        page = shop.ask("sound", query_id=query_id, limit=3, **asked)
        pages = [page]
        while page["next_cursor"] is not None:
            page = shop.ask("sound", limit=3, cursor=page["next_cursor"], cursor_policy=policy, **asked)
            pages.append(page)
        assert [id_ for each in pages for id_ in ids(each)] == ids(whole)
        read, given = TokenCodec(SECRET.encode()).read, [hit for each in pages for hit in each["results"]]
        issued = {read(hit["token"]).issued_ms for hit in given if "token" in hit}
        assert [read(hit["token"]).rank for hit in given if "token" in hit] == list(
            range(sum("token" in h for h in given))
        )
        assert len(issued) == 1
    shop.read()
    assert not [each for page in pages[1:] for each in shop.comparisons.get(page["query_id"], [])]


def test_a_share_of_the_queries_is_in(shop: Shop) -> None:
    """As their ids say; the pages of the others are in none, whatever ids these have."""
    for number in range(12):
        query_id = f"some {number}"
        result = shop.ask("lamp", source="some", query_id=query_id, limit=2, **NOW)
        inside = TeamDraft.of("half", query_id, 0).is_within(0.5)
        assert ("experiment" in result["provenance"]) == inside
        following = shop.ask("lamp", source="some", limit=2, cursor=result["next_cursor"], **NOW)
        assert ("experiment" in following["provenance"]) == inside
        assert not {*ids(result)} & {*ids(following)}


@pytest.mark.parametrize(
    "event",
    [
        {"group_by": "subject"},
        {"order_by": {"field": "price", "direction": "asc"}},
        {"text": None, "filters": [{"field": "price", "op": "range", "value": {"lt": 5}}]},
        {"text": None, "like": {"ids": ["d1"]}},
        {"text": None, "vector": [1.0] + [0.0] * 383},
        {"record": True},
        {"recipe": "other"},
        {"recipe": "plain"},
        {"source": "watched", "namespace": "elsewhere"},
        {"source": "nobody"},
        {"source": "cheap", "recipe": "plain"},
        {"text": "lamp under 20 euro"},
    ],
)
def test_other_queries_are_in_none(shop: Shop, event: dict[str, Any]) -> None:
    """No token, no provenance, no record: other orders, other sources, and recipes that need less than the other."""
    result = shop.ask(**{"text": "lamp", "source": "user", **event})
    assert result["status"] == "ok"
    assert "experiment" not in result["provenance"]
    assert not [hit for hit in result["results"] if "token" in hit]
    shop.read()
    assert result["query_id"] not in shop.comparisons


def test_a_query_with_pins_is_in_none(shop: Shop) -> None:
    """A rule that moves results goes before every experiment; a synonym changes nothing about it."""
    rules = {
        "pin": {"when": {"contains": "stand"}, "then": {"pin": [{"id": "d7", "position": 1}]}},
        "tv": {"then": {"synonyms": {"words": ["tv", "television"]}}},
    }
    with closing(shop.running.kafka.plain_producer()) as producer:
        keys = {id_: orjson.dumps(["shop", id_]) for id_ in rules}
        producer.send([ProducerRecord("rules", keys[id_], orjson.dumps(rule)) for id_, rule in rules.items()])
    wait_until(lambda: shop.ask("stand").get("rules") == ["pin"], 20)
    pinned, expanded = shop.ask("stand", source="user"), shop.ask("tv", source="user")
    assert (ids(pinned)[0], "experiment" in pinned["provenance"]) == ("d7", False)
    assert (expanded["rules"], expanded["provenance"]["experiment"]) == (["tv"], "mixed")


def test_caches_are_kept_apart(shop: Shop) -> None:
    """A shadow's answers are for its own queries, and a mixed list is for one message alone."""
    asked = {"profile": "balanced", **NOW}

    def stages(**event: Any) -> list[str]:
        return [shop.ask("cable", **asked, **event)["retrieval_stage"] for _ in range(2)]

    assert stages() == ["hybrid_merge", "exact_cache"]
    assert stages(source="user", query_id="cached") == ["hybrid_merge", "hybrid_merge"]
    assert stages(source="watched") == ["hybrid_merge", "exact_cache"]
    again = shop.ask("cable", source="watched", **asked)
    assert again["provenance"]["experiment"] == "shadowed"
    shop.read()
    assert again["query_id"] not in shop.comparisons


def test_equal_queries_at_one_time_have_their_own_tokens(shop: Shop) -> None:
    """None waits for another's page."""
    events = [{"query_id": f"crowd {n}", "text": "wall", "source": "user", "limit": 3} for n in range(8)]
    for result in shop.client.ask(events, 60):
        tokens = [TokenCodec(SECRET.encode()).read(hit["token"]) for hit in result["results"]]
        assert {each.query_id for each in tokens} == {result["query_id"]}
