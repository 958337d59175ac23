"""Rules in the running search flow, with Qdrant's engine, MiniLM and its reranker: peers' tricky cases, one by one."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from rich.console import Console

from flows.cli.ingestion import index_once
from flows.cli.query import QueryClient
from flows.cli.rank import PoolRanker
from flows.process.embedded import Embedded, embedded_settings, start_with_settings
from operators.delivery.client import ProducerRecord
from schemas.result import ResultEvent
from schemas.rule import rule_key
from tests.integration.deployment import wait_until

DOCUMENTS: Final[list[dict[str, Any]]] = [
    {"id": "samsung", "title": "Television Samsung Q60", "text": "A screen of 55 inches.", "price": 700, "stock": 3},
    {"id": "philips", "title": "Television Philips Ambilight", "text": "A screen with lights.", "price": 500},
    {"id": "bracket", "title": "Wall bracket for a television", "text": "Carries 40 kg.", "price": 30, "stock": 90},
    {"id": "cinema", "title": "Projector", "text": "A cinema at home.", "price": 900, "stock": 9},
    {"id": "trainers", "title": "Sneakers Pegasus", "text": "Light, for the road.", "price": 120, "kind": "shoe"},
    {"id": "boots", "title": "Boots for the mountains", "text": "Leather, warm.", "price": 180, "kind": "shoe"},
    {"id": "sandals", "title": "Sandals", "text": "For the beach.", "price": 25, "kind": "shoe"},
    {"id": "headset", "title": "Headphones WH-1000XM4", "text": "Without noise.", "price": 280, "stock": 1},
    {"id": "energy", "title": "Watt hour meter", "text": "Counts what flows.", "price": 15},
    {"id": "secret", "title": "Television prototype", "text": "Not for sale.", "classification": "confidential"},
]
SETTINGS: Final = {
    "kafka": {"topics": {"rules": "rules"}},
    "qdrant": {"indexes": {"price": "float", "kind": "keyword"}},
    "defaults": {"namespace": "shop"},
    "firewall": {"enabled": True},
    "policies": {"sources": {"*": {}, "partner": {"hidden_fields": ["price"]}}},
}


@dataclass
class Shop:
    """The running flow, and the rules that are in force."""

    running: Embedded
    client: QueryClient
    rules: dict[str, Any] = field(default_factory=dict)

    def ask(self, text: str, **event: Any) -> dict[str, Any]:
        """The result of one query, which must hold to the contract."""
        asked = {"query_id": text, "text": text, "timeout_ms": 30_000, "profile": "exhaustive", **event}
        [result] = self.client.ask([asked], 60)
        if "error" not in result:
            ResultEvent.model_validate(result)
        return result

    def put(self, **rules: Mapping[str, Any] | None) -> None:
        """Put rules by their ids, None removes one; return when they are in force."""
        before = self.version()
        values = {id_: json.dumps(rule).encode() if rule is not None else None for id_, rule in rules.items()}
        records = [ProducerRecord("rules", rule_key("shop", id_), value) for id_, value in values.items()]
        with closing(self.running.kafka.plain_producer()) as producer:
            producer.send(records)
        self.rules = {id_: rule for id_, rule in {**self.rules, **rules}.items() if rule is not None}
        wait_until(lambda: self.version() != before, 20)

    def only(self, **rules: Mapping[str, Any]) -> None:
        """Have these rules alone in force."""
        if rules != self.rules:
            self.put(**{**dict.fromkeys(self.rules), **rules})

    def version(self) -> str | None:
        """The version of the rules in force."""
        version: str | None = self.ask("version")["provenance"].get("rules")
        return version


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The search flow with the documents indexed, and no rule."""
    directory = tmp_path_factory.mktemp("rules")
    with start_with_settings(embedded_settings(directory, SETTINGS)) as running:
        index_once(running, "documents", lambda: enumerate(DOCUMENTS, 1), "1", directory, Console(quiet=True))
        with running.searching(), QueryClient.connect(running.kafka, running.settings.kafka.topics) as client:
            yield Shop(running, client)


def found(result: Mapping[str, Any]) -> list[str]:
    """The documents, best first."""
    return [hit["id"] for hit in result["results"]]


def leg(result: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The report of a leg in a result."""
    return next(each for each in result["legs"] if each["name"] == name)


def pin(id_: str, position: int) -> dict[str, Any]:
    """One pin."""
    return {"id": id_, "position": position}


TV: Final = {"contains": "television"}
PIN: Final = {"pin": [{"id": "cinema", "position": 1}]}


def test_a_namespace_without_rules_says_nothing_of_them(shop: Shop) -> None:
    """Neither version nor ids nor a leg."""
    result = shop.ask("television")
    assert "rules" not in result
    assert "rules" not in result["provenance"]
    assert "pinned" not in [each["name"] for each in result["legs"]]


def test_a_pin_holds_under_hybrid_search_with_reranking(shop: Shop) -> None:
    """Typesense #2702: the document that no leg of words finds is first though a model has read the others."""
    shop.only()
    plain = shop.ask("television")
    shop.only(cinema={"when": TV, "then": {"pin": [pin("cinema", 1)]}})
    result = shop.ask("television", explain=True)
    assert result["reranked"]
    assert result["rules"] == ["cinema"]
    assert found(result)[0] == "cinema"
    assert [id_ for id_ in found(result) if id_ != "cinema"] == [id_ for id_ in found(plain) if id_ != "cinema"]
    [step] = [each for each in result["results"][0]["explanation"]["stages"] if each["stage"] == "rules"]
    assert step["values"] == {"pin": {"position": 1, "rule": "cinema"}}
    assert leg(result, "pinned")["candidates"] == 1


def test_a_pin_holds_where_nothing_is_relevant(shop: Shop) -> None:
    """It is the one result, and no warning says that there is none."""
    said = "no results: min_relevance leaves none of 9 candidates (1)"
    shop.only()
    result = shop.ask("television", min_relevance=1.0, rerank=False)
    assert (found(result), said in result["warnings"]) == ([], True)
    shop.only(cinema={"when": TV, "then": {"pin": [pin("cinema", 1)]}})
    result = shop.ask("television", min_relevance=1.0, rerank=False)
    assert (found(result), said in result["warnings"]) == (["cinema"], False)


def test_a_pin_that_the_filter_excludes_is_left_out(shop: Shop) -> None:
    """Typesense's `filter_curated_hits`, Algolia's `filterPromotes`: the next one moves up."""
    shop.only(two={"when": TV, "then": {"pin": [pin("cinema", 1), pin("bracket", 2)]}})
    cheap = [{"field": "price", "op": "range", "value": {"lt": 600}}]
    assert found(shop.ask("television"))[:2] == ["cinema", "bracket"]
    result = shop.ask("television", filters=cheap)
    assert "cinema" not in found(result)
    assert found(result).index("bracket") == 1


def test_a_pin_is_never_against_the_firewall(shop: Shop) -> None:
    """A confidential document stays hidden, is counted nowhere, and nothing was removed afterwards."""
    shop.only(leak={"when": TV, "then": {"pin": [pin("secret", 1), pin("cinema", 2)]}})
    result = shop.ask("television")
    assert "secret" not in json.dumps(result)
    assert (leg(result, "pinned")["candidates"], result["removed_by_firewall"]) == (1, 0)


def test_a_pin_on_page_two_is_on_page_two(shop: Shop) -> None:
    """Pages stay one list: no document comes twice, none is missing."""
    shop.only(late={"when": TV, "then": {"pin": [pin("energy", 3)]}})
    whole = found(shop.ask("television", limit=50))
    assert whole[2] == "energy"
    pages, cursor = [], None
    while True:
        page = shop.ask("television", limit=2, **({"cursor": cursor} if cursor else {}))
        pages += found(page)
        if (cursor := page["next_cursor"]) is None:
            break
    assert pages == whole


def test_pages_end_with_the_rules_that_they_began_with(shop: Shop) -> None:
    """A cursor of other rules has expired; one that goes on gives each document once."""
    shop.only(late={"when": TV, "then": {"pin": [pin("energy", 3)]}})
    first = shop.ask("television", limit=2)
    shop.put(late={"when": TV, "then": {"pin": [pin("energy", 1)]}})
    refused = shop.ask("television", limit=2, cursor=first["next_cursor"])
    assert refused["error"]["class"] == "cursor_expired"
    second = shop.ask("television", limit=2, cursor=first["next_cursor"], cursor_policy="continue")
    assert not set(found(first)) & set(found(second))


def test_two_pins_of_one_place_go_by_rule_id(shop: Shop) -> None:
    """Algolia's tie-break: the second is shifted down by one."""
    shop.only(b={"when": TV, "then": {"pin": [pin("boots", 1)]}}, a={"when": TV, "then": {"pin": [pin("sandals", 1)]}})
    assert found(shop.ask("television"))[:2] == ["sandals", "boots"]


def test_a_bury_of_all_results_leaves_their_order(shop: Shop) -> None:
    """A bury hides nothing; by a filter, the documents that match go behind the others; a pin goes before it."""
    shop.only()
    plain = found(shop.ask("television"))
    shop.only(all={"when": TV, "then": {"bury": {"filters": [{"field": "title", "op": "exists", "value": True}]}}})
    assert found(shop.ask("television")) == plain
    kind = [{"field": "price", "op": "range", "value": {"gt": 400}}]
    shop.only(dear={"when": TV, "then": {"bury": {"filters": kind}}})
    dear = {each["id"] for each in DOCUMENTS if each.get("price", 0) > 400}
    expected = [id_ for id_ in plain if id_ not in dear] + [id_ for id_ in plain if id_ in dear]
    assert found(shop.ask("television")) == expected
    shop.put(best={"when": TV, "then": {"pin": [pin("samsung", 1)]}})
    assert found(shop.ask("television")) == ["samsung", *[id_ for id_ in expected if id_ != "samsung"]]


def test_a_synonym_finds_what_the_word_does_not(shop: Shop) -> None:
    """In the keyword leg alone, with a weight, said in explain; and as evidence: it ranks first."""
    assert leg(shop.ask("tv"), "keyword")["candidates"] == 0
    shop.only(tv={"then": {"synonyms": {"words": ["tv", "television"]}}})
    result = shop.ask("tv", explain=True)
    assert leg(result, "keyword")["candidates"] == 3
    assert result["rules"] == ["tv"]
    [step] = [each for each in result["results"][0]["explanation"]["stages"] if each["stage"] == "rules"]
    assert step["parameters"]["synonyms"] == [{"rule": "tv", "words": "television"}]
    own = shop.ask("television", explain=True)
    weights = [result["results"][0]["explanation"]["legs"]["keyword"]["score"]]
    score = {
        hit["id"]: hit["explanation"]["legs"]["keyword"]["score"] for hit in own["results"] if "keyword" in hit["legs"]
    }
    assert weights[0] == pytest.approx(score[result["results"][0]["id"]] / 2, rel=1e-5)


@pytest.mark.parametrize("text", ['"tv"', "tv AND screen", "tv-1000x"])
def test_a_synonym_is_not_for_expressions_and_identifiers(shop: Shop, text: str) -> None:
    """They say exactly what they look for."""
    shop.only(tv={"then": {"synonyms": {"words": ["tv", "television"]}}})
    result = shop.ask(text)
    assert "rules" not in result
    assert not keywords(result) & {"samsung", "philips", "bracket"}


def test_several_words_to_one_and_one_to_several(shop: Shop) -> None:
    """Meilisearch's multi-word synonyms, one way: the other way finds nothing."""
    shop.only(run={"then": {"synonyms": {"from": ["running shoe"], "to": ["sneakers"]}}})
    assert "trainers" in keywords(shop.ask("running shoe"))
    assert "boots" not in keywords(shop.ask("sneakers"))
    shop.only(wh={"then": {"synonyms": {"from": ["wh"], "to": ["watt hour"]}}})
    assert keywords(shop.ask("wh")) == {"energy", "headset"}
    assert "energy" not in keywords(shop.ask("WH-1000XM4"))


def keywords(result: Mapping[str, Any]) -> set[str]:
    """The documents that the keyword leg found."""
    return {hit["id"] for hit in result["results"] if "keyword" in hit["legs"]}


def test_a_synonym_triggers_a_curation(shop: Shop) -> None:
    """Typesense's `rule.synonyms`, Algolia's alternatives: one step, not two."""
    shop.only(
        pin={"when": {"exact": "television"}, "then": {"pin": [pin("cinema", 1)]}},
        one={"then": {"synonyms": {"words": ["tv", "television"]}}},
        two={"then": {"synonyms": {"words": ["telly", "tv"]}}},
    )
    assert found(shop.ask("tv"))[0] == "cinema"
    assert shop.ask("tv")["rules"] == ["one", "pin", "two"]
    assert shop.ask("telly")["rules"] == ["two"]


def test_words_are_redirected_to_an_order(shop: Shop) -> None:
    """`budget` is taken away, and the shoes come by price; pages go on, and alone it lists everything by price."""
    budget = {"order_by": {"field": "price"}}
    shop.only(budget={"when": {"contains": "budget"}, "then": {"rewrite": budget}})
    kind = [{"field": "kind", "op": "eq", "value": "shoe"}]
    assert found(shop.ask("budget shoes", filters=kind)) == ["sandals", "trainers", "boots"]
    first = shop.ask("budget shoes", filters=kind, limit=2)
    assert found(shop.ask("budget shoes", filters=kind, limit=2, cursor=first["next_cursor"])) == ["boots"]
    alone = shop.ask("Budget", limit=2)
    assert (found(alone), alone["rules"]) == (["energy", "sandals"], ["budget"])
    assert found(shop.ask("Budget", limit=2, cursor=alone["next_cursor"])) == ["bracket", "trainers"]
    exactly = shop.ask("shoes NOT budget")
    assert "rules" not in exactly
    dearest = shop.ask("budget shoes", filters=kind, order_by={"field": "price", "direction": "desc"})
    assert found(dearest)[0] == "boots"


def test_a_pool_of_a_query_that_has_no_words_left_is_ranked(shop: Shop) -> None:
    """The console's, too: a rule that leaves an order alone is tried there as in a query."""
    tried = {"budget": {"when": {"exact": "budget"}, "then": {"rewrite": {"order_by": {"field": "price"}}}}}
    result, ranker = (
        shop.ask("budget", rules=tried, record=True),
        PoolRanker.of(shop.running.settings, None, explain=False),
    )
    again = ranker.rank(ranker.read_pool(json.dumps(result["pool"]).encode()))
    assert found(again) == found(result)
    assert found(again)[0] == "energy"


def test_words_are_redirected_to_a_filter_that_may_be_asked(shop: Shop) -> None:
    """For a source that may not see the field, the words stay, with a warning; the query isn't refused."""
    cheap = {"filters": [{"field": "price", "op": "range", "value": {"lt": 100}}]}
    shop.only(cheap={"when": {"contains": "bargain"}, "then": {"rewrite": cheap}})
    assert set(found(shop.ask("bargain"))) == {"bracket", "sandals", "energy"}
    hidden = shop.ask("bargain", source="partner")
    assert hidden["status"] == "ok"
    assert any(each.startswith("rules:") for each in hidden["warnings"])
    assert "rules" not in hidden


def test_boosts_by_a_value_and_by_a_number(shop: Shop) -> None:
    """The explanation has input, share, spread and output, by which the output can be computed again."""
    kind = [{"field": "price", "op": "range", "value": {"lt": 100}}]
    shop.only(stock={"when": TV, "then": {"boost": {"field": "stock", "half": 10, "weight": 2}}})
    result = shop.ask("television", explain=True)
    assert found(result)[0] == "bracket"
    for hit in result["results"]:
        step = next(each for each in hit["explanation"]["stages"] if each["stage"] == "rules")
        stock = next(each.get("stock", 0) for each in DOCUMENTS if each["id"] == hit["id"])
        share = stock / (stock + 10)
        assert step["values"].get("boost", {}).get("stock", 0) == pytest.approx(share)
        assert step["output"] == pytest.approx(step["input"] + 2 * share * step["values"]["spread"])
        assert hit["score"] == step["output"]
    shop.only(cheap={"when": TV, "then": {"boost": {"filters": kind, "weight": -10}}})
    assert set(found(shop.ask("television"))[-3:]) == {"bracket", "sandals", "energy"}


def test_a_pin_stands_for_its_group(shop: Shop) -> None:
    """With groups, whatever combines their scores, the pinned document's group is at its place."""
    shop.only(boots={"when": TV, "then": {"pin": [pin("sandals", 2)]}})
    for score in ("max", "sum", "avg"):
        result = shop.ask("television", group_by="title", group_score=score)
        assert found(result)[1] == "sandals"


def test_a_broken_rule_leaves_the_one_before_in_force(shop: Shop) -> None:
    """It is counted, and the version stays."""
    shop.only(cinema={"when": TV, "then": {"pin": [pin("cinema", 1)]}})
    before = shop.version()
    with closing(shop.running.kafka.plain_producer()) as producer:
        broken = [b"{", b"[]", json.dumps({"then": {"pin": [pin("x", 0)]}}).encode()]
        producer.send([ProducerRecord("rules", rule_key("shop", "cinema"), each) for each in broken])
        producer.send([ProducerRecord("rules", b"no key", b"{}")])
    shop.put(other={"then": {"synonyms": {"words": ["a1", "b1"]}}})
    assert shop.version() != before
    assert found(shop.ask("television"))[0] == "cinema"


def test_caches_have_the_version(shop: Shop) -> None:
    """The same query before and after a rule, both from the caches' profile: each has its own answer."""
    shop.only(one={"when": TV, "then": {"pin": [pin("cinema", 1)]}})
    first = [shop.ask("television", profile="balanced") for _ in range(2)]
    assert first[1]["retrieval_stage"] == "exact_cache"
    shop.put(one={"when": TV, "then": {"pin": [pin("boots", 1)]}})
    after = shop.ask("television", profile="balanced")
    assert (found(after)[0], after["retrieval_stage"]) == ("boots", "hybrid_merge")
    assert after["provenance"]["rules"] != first[0]["provenance"]["rules"]


def naming(id_: str, word: str) -> dict[str, dict[str, Any]]:
    """Rules of every kind that name one document, or its word."""
    of_it = [{"field": "id", "op": "eq", "value": id_}]
    return {
        "pin": {"when": TV, "then": {"pin": [pin(id_, 1), pin("cinema", 2)]}},
        "bury": {"when": TV, "then": {"bury": {"ids": [id_], "filters": of_it}}},
        "boost": {"when": TV, "then": {"boost": {"filters": of_it, "weight": 9}}},
        "synonym": {"then": {"synonyms": {"from": ["television"], "to": [word], "weight": 1}}},
        "rewrite": {"when": {"contains": "hidden"}, "then": {"rewrite": {"filters": of_it}}},
    }


@pytest.mark.parametrize("kind", naming("", ""))
@pytest.mark.parametrize("tried", [True, False], ids=["tried", "put"])
def test_a_rule_does_not_tell_whether_a_hidden_document_exists(shop: Shop, kind: str, tried: bool) -> None:
    """The whole answer, counts, warnings, facets, explanations and pool included, is that of a rule about nothing."""

    def ask(rule: Mapping[str, Any], text: str) -> dict[str, Any]:
        shop.only(**({} if tried else {kind: rule}))
        own = {"rules": {kind: rule}} if tried else {}
        event = {"explain": True, "record": True, "facets": [{"field": "classification"}, {"field": "kind"}]}
        result = shop.ask(text, profile="deep", debug=True, **event, **own)
        varying = {"result_id", "provenance", "debug", "legs", "latency_ms", "pool", "completed_at"}
        legs = [{name: each[name] for name in ("name", "status", "candidates")} for each in result["legs"]]
        assert result["status"] == "ok", result
        pool = [[(hit["id"], hit["score"]) for hit in each["hits"]] for each in result["pool"]["legs"]]
        counts = result["debug"]["candidates_per_stage"]
        bare = {name: value for name, value in result.items() if name not in varying}
        return {**bare, "legs": legs, "pool": pool, "counts": counts}

    ghost, canary = naming("nowhere", "unheardof")[kind], naming("secret", "prototype")[kind]
    for text in ("television", "hidden television"):
        said = json.dumps(ask(ghost, text)).replace("unheardof", "prototype").replace("nowhere", "secret")
        assert json.dumps(ask(canary, text)) == said


def test_a_query_tries_rules(shop: Shop) -> None:
    """They are laid over those in force, for this query alone, which names other rules and has an answer of its own."""
    shop.only(
        one={"when": TV, "then": {"pin": [pin("cinema", 1)]}}, two={"when": TV, "then": {"pin": [pin("boots", 2)]}}
    )
    asked = {"rules": {"one": {"when": TV, "then": {"pin": [pin("energy", 1)]}}}, "profile": "balanced"}
    plain, tried = shop.ask("television", profile="balanced"), shop.ask("television", **asked)
    assert (found(plain)[:2], found(tried)[:2]) == (["cinema", "boots"], ["energy", "boots"])
    assert tried["provenance"]["rules"].endswith(plain["provenance"]["rules"])
    assert shop.ask("television", **asked)["retrieval_stage"] == "exact_cache"
    without = shop.ask("television", rules={"one": None}, profile="balanced")
    assert (without["rules"], found(without)[1]) == (["two"], "boots")
    assert without["provenance"]["rules"] not in {each["provenance"]["rules"] for each in (plain, tried)}
    assert found(shop.ask("television", profile="balanced"))[0] == "cinema"
    shop.put(one=None, two=None)
    assert found(shop.ask("television", **asked))[0] == "energy"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ({"rules": {"x": {"then": {}}}}, "rules.x: then: synonyms"),
        ({"rules": {"x": 1}}, "rules.x: "),
        (
            {"rules": {"x": {"then": {"bury": {"ids": ["y" * 4000] * 5}}}}},
            "rules: at most 16384 bytes of JSON are expected (20",
        ),
        ({"rules": {"x": {"then": PIN}}, "source": "partner"}, "rules: the policy of the query's source hides"),
    ],
)
def test_rules_that_a_query_may_not_try_are_refused(shop: Shop, event: dict[str, Any], said: str) -> None:
    """The error names the field; a source with hidden fields would learn of these by a boost."""
    result = shop.ask("television", **event)
    assert (result["status"], result["error"]["reason"].startswith(said)) == ("invalid", True), result["error"]
