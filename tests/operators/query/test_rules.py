"""Rules at work, beside a naive reading of them: which hold for a query, and what becomes of its results."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from operators.mapping.own_names import OwnNames
from operators.query.rules import Circumstances, RuleSet, RuleTable, read_words
from operators.query.ruling import Ruling, decide
from operators.ranking.candidate import Candidate
from operators.ranking.run import Facts, Run, ScoreExplanations
from schemas.errors import InputError
from schemas.rule import rule_key
from tests.tiers import sized

PIN = {"pin": [{"id": "x", "position": 1}]}
Said = Mapping[str, Mapping[str, Any]]


def table(own: Said, shared: Said | None = None) -> RuleTable:
    """A table with the rules of the namespace `n`, and those for all."""
    made = RuleTable()
    for namespace, rules in (("n", own), ("*", shared or {})):
        for id_, rule in rules.items():
            made.put(rule_key(namespace, id_), json.dumps(rule).encode())
    return made


def ruling(
    text: str | None,
    own: Said,
    shared: Said | None = None,
    source: str | None = None,
    now: float = 0,
    lang: str | None = None,
) -> Ruling:
    """The ruling for a text."""
    return decide(table(own, shared).of("n"), text, Circumstances(source, now, lang))


def test_rules_name_fields_as_documents_do() -> None:
    """Filters, boosts and orders are read with the index's names; the rule stays as it is written."""
    own = {"any_of": [{"field": "headline", "op": "eq", "value": "headline"}]}
    said = {
        "when": {"contains": "headline"},
        "then": {
            "bury": {"filters": [own]},
            "boost": {"field": "meta.rank"},
            "rewrite": {"filters": [own], "order_by": {"geo_distance": {"field": "spot", "lat": 0, "lon": 0}}},
            "synonyms": {"words": ["headline", "meta.rank"]},
        },
    }
    made = RuleTable(OwnNames({"title": "headline", "rank": "meta.rank", "place": "spot"}).read)
    made.put(rule_key("n", "r"), json.dumps(said).encode())
    [(_, compiled)] = made
    then = compiled.rule.then
    assert then.bury is not None
    assert then.boost is not None
    assert then.rewrite is not None
    for effect in (then.bury, then.rewrite):
        assert effect.model_dump()["filters"][0]["any_of"] == [{"field": "title", "op": "eq", "value": "headline"}]
    assert (then.boost.field, then.rewrite.order_by and then.rewrite.order_by.field) == ("rank", "place")
    assert compiled.rule.when.contains == "headline"
    assert [*compiled.synonyms] == [("headline",), ("meta", "rank")]
    assert json.loads(compiled.value) == said


WORDS = st.sampled_from("abc")
PHRASES = st.lists(WORDS, min_size=1, max_size=2).map(" ".join)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "sources": st.lists(st.sampled_from(["web", "app"]), min_size=1),
        "from": st.integers(0, 3),
        "until": st.integers(4, 6),
    },
).flatmap(
    lambda said: st.sampled_from(["contains", "exact", None]).flatmap(
        lambda kind: st.just(said) if kind is None else PHRASES.map(lambda phrase: {**said, kind: phrase})
    )
)
SYNONYMS = st.one_of(
    st.lists(PHRASES, min_size=2, max_size=2, unique=True).map(lambda words: {"words": words}),
    st.tuples(PHRASES, PHRASES).map(lambda pair: {"from": [pair[0]], "to": [pair[1]]}),
)
RULES = st.builds(
    lambda when, then: {"when": when, "then": then},
    CONDITIONS,
    st.one_of(st.just(PIN), SYNONYMS.map(lambda each: {"synonyms": each})),
)
SETS = st.dictionaries(st.sampled_from(["r1", "r2", "r3", "r4"]), RULES, max_size=4)


def spans(text: Sequence[str], phrase: str) -> list[tuple[int, int]]:
    """The places where the words of a phrase stand side by side."""
    words = phrase.split()
    size = len(words)
    return [(at, at + size) for at in range(len(text) - size + 1) if [*text[at : at + size]] == words]


def holds(when: Mapping[str, Any], text: Sequence[str], source: str | None, now: float) -> bool:
    """A rule's conditions, one after another."""
    if "sources" in when and source not in when["sources"]:
        return False
    if now < when.get("from", now) or now >= when.get("until", now + 1):
        return False
    if "exact" in when and when["exact"].split() != [*text]:
        return False
    return "contains" not in when or bool(spans(text, when["contains"]))


def replacements(synonyms: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each phrase with one that stands for it."""
    if "words" in synonyms:
        yield from permutations(synonyms["words"], 2)
    else:
        yield from ((one, other) for one in synonyms["from"] for other in synonyms["to"] if one != other)


@settings(max_examples=sized(100, nightly=1000))
@given(st.lists(WORDS, max_size=5), SETS, SETS, st.sampled_from(["web", "app", None]), st.integers(0, 7))
def test_the_set_finds_what_a_naive_reading_finds(
    text: list[str], own: Said, shared: Said, source: str | None, now: float
) -> None:
    """Rules by words, sources and times, with synonyms one step far; the namespace's own hide those for all."""
    every = {**shared, **own}
    assume(every)
    direct = [id_ for id_, rule in every.items() if holds(rule["when"], text, source, now)]
    variants = [text]
    expanding = set()
    for id_ in direct:
        for one, other in replacements(every[id_]["then"].get("synonyms", {"from": [], "to": []})):
            for start, end in spans(text, one):
                expanding.add(id_)
                variants.append([*text[:start], *other.split(), *text[end:]])
    assume(len(variants) <= 32)
    expected = {
        id_
        for id_, rule in every.items()
        if any(holds(rule["when"], variant, source, now) for variant in variants)
        and ("synonyms" not in rule["then"] or id_ in expanding)
    }
    found = ruling(" ".join(text), own, shared, source, now)
    # Of a rule of synonyms that a synonym triggers, the synonyms of the text count.
    late = {id_ for id_, rule in every.items() if "synonyms" in rule["then"] and id_ not in direct}
    assert {*found.expand(" ".join(text)).ids} - late == expected


@pytest.mark.parametrize(
    ("rule", "query", "met"),
    [
        ("tv", "TV", True),
        ("café", "CAFE noir", True),
        ("cafe", "Café", True),
        ("wi-fi", "the Wi-Fi is slow", True),
        ("c++", "C++ primer", True),
        ("c", "C++ primer", False),
        ("shoe", "shoes", False),
        ("running shoe", "running a shoe", False),
        ("自動車", "電気自動車", True),
        ("ﬁne", "fine", True),
        ("2,5 kg", "a bag of 2,5 kg", True),
    ],
)
def test_words_are_folded_as_the_analysis_folds_them(rule: str, query: str, met: bool) -> None:
    """Case, accents, width and signs; no stems, and no words apart."""
    found = ruling(query, {"r": {"when": {"contains": rule}, "then": PIN}})
    assert [*found.ids] == (["r"] if met else [])


def test_a_rule_for_all_is_hidden_by_its_name() -> None:
    """The namespace's own rule of the same id takes its place, whether or not it works."""
    shared = {"r": {"when": {"contains": "a"}, "then": PIN}}
    assert [*ruling("a", {"other": {"then": PIN}}, shared).ids] == ["other", "r"]
    assert [*ruling("a", {"r": {"when": {"contains": "never"}, "then": PIN}}, shared).ids] == []


def test_a_rule_that_is_tried_as_none_is_taken_away() -> None:
    """Of the namespace and of all; the others work."""
    rule = {"when": {"contains": "a"}, "then": PIN}
    behind = table({"r": rule, "other": rule}, {"r": rule, "s": rule}).of("n")
    taken = [decide([RuleSet(dict.fromkeys(ids)), *behind], "a", Circumstances(None, 0)) for ids in ([], ["r"], ["s"])]
    assert [[*each.ids] for each in taken] == [["other", "r", "s"], ["other", "s"], ["other", "r"]]
    assert len({each.version for each in taken}) == 3


def test_a_version_is_that_of_the_rules_whatever_their_order() -> None:
    """It changes with each value, and comes again with the rules."""
    one, two = {"when": {"contains": "a"}, "then": PIN}, {"when": {"contains": "b"}, "then": PIN}
    version = ruling("a", {"r1": one, "r2": two}).version
    assert version == ruling("a", {"r2": two, "r1": one}).version
    assert version != ruling("a", {"r1": one}, {"r2": two}).version != ruling("a", {"r1": one}, {"r1": one}).version
    assert version != ruling("a", {"r1": two, "r2": one}).version
    made = table({"r1": one, "r2": two, "r3": one})
    made.put(rule_key("n", "r3"), None)
    assert decide(made.of("n"), "a", Circumstances(None, 0)).version == version


def test_a_taken_set_does_not_change() -> None:
    """A query keeps the rules that it took while others are put."""
    made = table({"r": {"then": PIN}})
    taken = made.of("n")
    made.put(rule_key("n", "r"), None)
    made.put(rule_key("n", "s"), json.dumps({"then": PIN}).encode())
    assert [*decide(taken, "a", Circumstances(None, 0)).ids] == ["r"]
    assert [*decide(made.of("n"), "a", Circumstances(None, 0)).ids] == ["s"]


def test_a_broken_rule_changes_nothing() -> None:
    """It is refused, and the rule before stays; a rule without words is broken, too."""
    made = table({"r": {"then": PIN}})
    wordless = json.dumps({"when": {"exact": "!"}, "then": PIN}).encode()
    no_rules = [(rule_key("n", "r"), each) for each in (b"", b"{", b'{"then": {}}', wordless)]
    for key, value in [*no_rules, (b"r", json.dumps({"then": PIN}).encode())]:
        with pytest.raises(InputError):
            made.put(key, value)
    assert len(made) == 1
    assert [*decide(made.of("n"), None, Circumstances(None, 0)).ids] == ["r"]
    with pytest.raises(InputError, match="1 to 8 words are expected"):
        made.put(rule_key("n", "r"), json.dumps({"when": {"exact": "a b c d e f g h i"}, "then": PIN}).encode())


def test_words_are_taken_away() -> None:
    """All of them, by their places as written; of a synonym, the words that stand there."""
    cheap = {"when": {"contains": "cheap"}, "then": {"rewrite": {"order_by": {"field": "price"}}}}
    assert ruling("Cheap  shoes, CHEAP", {"r": cheap}).take_away() == "shoes,"
    same = {"then": {"synonyms": {"words": ["cheap", "not dear"]}}}
    assert ruling("shoes not dear", {"r": cheap, "s": same}).take_away() == "shoes"
    assert ruling("shoes", {"r": cheap}).take_away() == "shoes"
    dear = {"when": {"contains": "dear"}, "then": {"rewrite": {"order_by": {"field": "price"}}}}
    assert ruling("shoes not dear now", {"r": cheap, "s": same, "t": dear}).take_away() == "shoes now"


def test_a_long_text_is_expanded_where_it_begins() -> None:
    """However many synonyms its words have: a query's own rules may have hundreds of each."""
    words = [f"w{number}" for number in range(32)]
    text = " ".join(words * 60)
    found = ruling(text, {f"r{number}": {"then": {"synonyms": {"words": words}}} for number in range(16)}).expand(text)
    assert len(found.expansions) == 64 * 31
    assert max(each.first for each in found.expansions) < 10


@pytest.mark.parametrize("text", ["shoes NOT cheap", '"cheap shoes"', "cheap*", "title:cheap shoes"])
def test_a_keyword_expression_keeps_its_words(text: str) -> None:
    """It says exactly what it looks for: without its word, the first would ask for the opposite. Other effects work."""
    when, then = {"contains": "cheap"}, {"rewrite": {"order_by": {"field": "price"}}}
    rules = {"r": {"when": when, "then": then}, "s": {"when": when, "then": {**then, **PIN}}}
    made = decide(table(rules).of("n"), text, Circumstances(None, 0), columns={"title": "title"})
    assert (made.take_away(), [*made.ids], [*made.pins]) == (text, ["s"], ["x"])


DOCUMENTS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=2)
PINS = st.dictionaries(
    st.sampled_from(["r1", "r2", "r3"]),
    st.lists(st.tuples(st.sampled_from("abcdx"), st.integers(1, 4)), min_size=1, max_size=3),
)


@settings(max_examples=sized(100, nightly=1000))
@given(DOCUMENTS, PINS, st.sets(st.sampled_from("abcdefgh"), max_size=4))
def test_results_are_placed_as_a_naive_reading_places_them(
    results: list[str], pinned: Mapping[str, Sequence[tuple[str, int]]], buried: set[str]
) -> None:
    """Pins are at their positions, or next to the one before; buried ones are last; all others keep their order."""
    said: dict[str, Any] = {
        id_: {"then": {"pin": [{"id": document, "position": position} for document, position in pins]}}
        for id_, pins in pinned.items()
    }
    if buried:
        said["z"] = {"then": {"bury": {"ids": sorted(buried)}}}
    assume(said)
    rules = ruling("a", said)
    placed = [each.id for each in rules.arrange([Candidate(id_, 1.0) for id_ in results])]
    first: dict[str, tuple[int, str]] = {}
    for id_ in sorted(pinned):
        for document, position in pinned[id_]:
            first.setdefault(document, (position, id_))
    rest = [each for each in results if each not in first]
    expected = [each for each in rest if each not in buried] + [each for each in rest if each in buried]
    slots: dict[int, str] = {}
    for document, (position, _) in sorted(first.items(), key=lambda each: (*each[1], [*first].index(each[0]))):
        if document in results:
            slots[max(position, max(slots, default=0) + 1)] = document
    whole: list[str] = []
    while expected or slots:
        at = len(whole) + 1
        if at in slots:
            whole.append(slots.pop(at))
        elif expected:
            whole.append(expected.pop(0))
        else:
            whole += [slots.pop(each) for each in sorted(slots)]
    assert placed == whole


def test_a_boost_can_be_computed_again() -> None:
    """By its formula: score + weight * share * spread, and the best is first."""
    number = {"then": {"boost": {"field": "sold", "half": 10, "weight": 2}}}
    value = {"then": {"boost": {"filters": [{"field": "new", "op": "eq", "value": True}], "weight": -0.5}}}
    candidates = [
        Candidate("a", 3.0, {"sold": 0, "new": True}),
        Candidate("b", 2.0, {"sold": 30}),
        Candidate("c", 1.0, {"sold": "many", "new": False}),
    ]
    run = Run(Facts(), ScoreExplanations({}))
    ranked = ruling(None, {"n": number, "v": value}).rank(candidates, None, run)
    assert [(each.id, each.score) for each in ranked] == [("b", 2.0 + 2 * 0.75 * 2), ("a", 3.0 - 0.5 * 2), ("c", 1.0)]
    assert run.explanations is not None
    [step] = run.explanations.by_id["b"].stages
    assert (step["input"], step["output"]) == (2.0, 5.0)
    assert step["values"] == {"boost": {"n": 0.75}, "spread": 2.0}


def test_places_of_words_are_those_of_the_text() -> None:
    """Also where folding changes lengths."""
    text = "½ ﬁn CAFÉ"
    assert [text[start:end] for _, start, end in read_words(text)][-2:] == ["ﬁn", "CAFÉ"]


@pytest.mark.parametrize(
    ("lang", "works"), [("de", True), ("de-AT", True), ("DE_at", True), ("en", False), ("d", False), (None, False)]
)
def test_a_rule_of_a_language_works_for_its_queries_alone(lang: str | None, works: bool) -> None:
    """A query says its language; one that says none is in no rule's."""
    rule = {"when": {"languages": ["fr", "de"]}, "then": {"pin": [{"id": "a", "position": 1}]}}
    assert [*ruling("a", {"r": rule}, lang=lang).ids] == (["r"] if works else [])
