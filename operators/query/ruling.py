"""Rulings: which of a namespace's rules hold for a query, and what they make of its results.

Rules of the rules:
- Every rule that holds works. Source: Typesense's curation without its stop.
- A synonym holds for a condition, too, one step far: of words whose synonym is the condition's. Synonyms of synonyms
  do not count. Source: Algolia's rules, whose alternatives are one degree of separation away.
- Conditions read the text as it came. Rewriting is next, and synonyms expand what it leaves. Source: Typesense.
- Of a keyword expression nothing is rewritten or expanded: without its word, `NOT cheap` would ask for the opposite.
- Boosts change scores behind all stages of the recipe, a bury goes before a boost, and a pin before a bury.
- Pins count positions over all pages, in every order. Two of one position go by the ids of their rules, and the second
  moves down one position. A document that two rules pin is where the first id says. Source: Algolia's promotions.
- A pinned document that does not match the query's filters, or may not be seen, is left out: those behind it move up.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple

from operators.access.filters import fields_of, matches_filter
from operators.query.rules import Circumstances, CompiledRule, Match, Phrase, RuleSet, Texts, Word, read_words
from operators.ranking.candidate import Candidate, Leg, Payload, best_first
from operators.ranking.run import Run, ScoreExplanation, number
from operators.text.analysis import Token, analyse
from operators.text.expression import parse
from schemas.filters import value_at
from schemas.rule import Boost, Bury

_VARIANTS: Final = 32
"""Variants of a text with one synonym each at most by which conditions hold."""

_EXPANDED: Final = 64
"""Phrases of a text at most that are expanded, the first ones: a long text may be full of words with synonyms."""

_GREATEST: Final = 1e300


class Expansion(NamedTuple):
    """A synonym by a rule: `text`, for the atoms of a query from `first` on, each of its words with this weight."""

    rule: str
    text: str
    words: Phrase
    first: int
    atoms: int
    weight: float


@dataclass(frozen=True)
class Ruling:
    """The rules that work for one query, in the order of their ids; they are taken once, and hold to its answer.

    `text` is the query's as it came, and `matches` are each set's in its words. `rules` are those whose conditions
    hold, and `said` has the words of these conditions. `rewrites` is false for a keyword expression, and if what would
    stand in place of the words can't be asked. `bound` is the text that cursors are bound to, if words are taken away:
    that which would be searched without rules. `expansions` are those of the text that is searched.
    """

    sets: Sequence[RuleSet]
    text: str | None
    at: Circumstances
    words: Sequence[Word]
    matches: Sequence[Sequence[Match]]
    rules: Sequence[CompiledRule]
    said: Mapping[str, Sequence[Word]]
    rewrites: bool
    expansions: Sequence[Expansion] = ()
    bound: str | None = None

    @property
    def version(self) -> str:
        """The version of the rules that were taken: 16 hexadecimal digits for each set."""
        return "".join([each.version for each in self.sets])

    @cached_property
    def ids(self) -> Sequence[str]:
        """The ids of the rules that work: one of synonyms alone does where it expands something."""
        if not self.rules and not self.expansions:
            return ()
        undone = {"synonyms"} if self.rewrites else {"synonyms", "rewrite"}
        expanding = {each.rule for each in self.expansions}
        works = (each.id for each in self.rules if each.rule.then.model_fields_set - undone)
        return sorted({*works, *expanding})

    @cached_property
    def rewriting(self) -> Sequence[CompiledRule]:
        """The rules that take words away."""
        return [each for each in self.rules if each.rule.then.rewrite is not None] if self.rewrites else ()

    @cached_property
    def pins(self) -> Mapping[str, tuple[int, str]]:
        """The position and the rule of each pinned document, by position and rule."""
        pins: dict[str, tuple[int, str]] = {}
        for rule in self.rules:
            for pin in rule.rule.then.pin or ():
                pins.setdefault(pin.id, (pin.position, rule.id))
        return dict(sorted(pins.items(), key=lambda each: each[1]))

    @cached_property
    def moves(self) -> bool:
        """True if a rule pins, buries or boosts."""
        return any(each.rule.then.model_fields_set & {"pin", "bury", "boost"} for each in self.rules)

    @cached_property
    def reads(self) -> frozenset[str]:
        """The payload fields that buries and boosts read."""
        effects = [each.rule.then for each in self.rules]
        filters = [each.filters for then in effects for each in (then.bury, then.boost) if each is not None]
        numbers = frozenset(each.boost.field for each in effects if each.boost and each.boost.field)
        return numbers.union(*map(fields_of, filters))

    def take_away(self) -> str:
        """The text without the words of the rules that rewrite it."""
        text, kept, at = self.text or "", list[str](), 0
        for start, end in sorted((word.start, word.end) for rule in self.rewriting for word in self.said[rule.id]):
            kept.append(text[at:start])
            at = max(at, end)
        return " ".join(" ".join([*kept, text[at:]]).split())

    def expand(self, text: str) -> "Ruling":
        """The ruling with the synonyms of the text that is searched: none within an identifier, as `WH` in WH-1000."""
        words, matches = self.words, self.matches
        if text != self.text:
            words = read_words(text)
            matches = _match(self.sets, words)
        if not (found := [*islice(_synonyms(self.sets, matches, self.said, self.at), _EXPANDED)]):
            return self
        tokens = analyse(text, query=True)
        identifiers = [each for each in tokens if not each.is_word and _is_identifier(text[each.start : each.end])]
        expansions = []
        for rule, other, start, end in found:
            first, last = words[start].start, words[end - 1].end
            atoms = [each for each in tokens if each.is_word and first <= each.start < last]
            said = rule.rule.then.synonyms
            if said is not None and atoms and not any(_cuts(first, last, each) for each in identifiers):
                size = atoms[-1].first + atoms[-1].atoms - atoms[0].first
                whole = said.weight * (end - start)
                for written, phrase in other.items():
                    of_each = whole / len(phrase)
                    expansions.append(Expansion(rule.id, written, phrase, atoms[0].first, size, of_each))
        return replace(self, expansions=expansions)

    def rank(self, ranked: Sequence[Candidate], pinned: Leg | None, run: Run) -> list[Candidate]:
        """The candidates by their boosted scores, with the pinned ones in front, and the buried ones at the end.

        `pinned` has the pinned documents that match the query. One that no leg found has the last candidate's score.
        Source: own; each boost is that of `schemas.rule.Boost`.
        """
        if not self.moves and run.explanations is None:
            return [*ranked]
        there = {each.document for each in ranked}
        last = min((each.score for each in ranked), default=0.0)
        hits = zip(pinned.ids, pinned.payloads, strict=True) if pinned is not None else ()
        further = (Candidate(id_, last, payload) for id_, payload in hits)
        found = [*ranked, *(each for each in further if each.document not in there)]
        boosts = {rule.id: rule.rule.then.boost for rule in self.rules if rule.rule.then.boost is not None}
        effects = {each.id: self._effects_on(each, boosts) for each in found}
        scores = [each.score for each in found]
        spread = max(scores, default=0.0) - min(scores, default=0.0) or 1.0
        for at, each in enumerate(found):
            shares = effects[each.id].get("boost", {})
            scores[at] += spread * math.fsum(boosts[id_].weight * share for id_, share in shares.items())
        if run.explanations is not None:
            synonyms = [{"rule": each.rule, "words": " ".join(each.words)} for each in self.expansions]
            said = {"rules": [*self.ids], "synonyms": synonyms}
            for each, score in zip(found, scores, strict=True):
                step = {"stage": STAGE, "input": each.score, "output": score, "parameters": said}
                explanation = run.explanations.by_id.setdefault(each.id, ScoreExplanation())
                explanation.stages.append({**step, "values": effects[each.id] | ({"spread": spread} if boosts else {})})
        for each, score in zip(found, scores, strict=True):
            each.score = score
        found = best_first(found) if boosts else found
        return sorted(found, key=lambda each: 0 if "pin" in (of := effects[each.id]) else 2 if "bury" in of else 1)

    def arrange(self, results: Sequence[Candidate]) -> list[Candidate]:
        """The results with the buried ones at the end, and each pinned one at its position."""
        if not self.moves:
            return [*results]
        pinned = {each.document: each for each in results if each.document in self.pins}
        rest = [each for each in results if each.document not in pinned]
        placed = sorted(rest, key=lambda each: self._buried_by(each) is not None)
        after = 0
        for id_, (position, _) in self.pins.items():
            if id_ in pinned:
                after = max(position, after + 1)
                placed.insert(after - 1, pinned[id_])
        return placed

    def _effects_on(self, candidate: Candidate, boosts: Mapping[str, Boost]) -> dict[str, Any]:
        effects: dict[str, Any] = {}
        if (pin := self.pins.get(candidate.document)) is not None:
            effects["pin"] = {"position": pin[0], "rule": pin[1]}
        elif (rule := self._buried_by(candidate)) is not None:
            effects["bury"] = {"rule": rule}
        shares = {id_: share for id_, boost in boosts.items() if (share := _share(boost, candidate.payload))}
        return {**effects, "boost": shares} if shares else effects

    def _buried_by(self, candidate: Candidate) -> str | None:
        buries = ((each.id, each.rule.then.bury) for each in self.rules if each.rule.then.bury is not None)
        return next((id_ for id_, bury in buries if _is_buried(bury, candidate)), None)


STAGE: Final = "rules"
"""The name of the step in which a result's explanation says what rules made of its score."""


def _is_buried(bury: Bury, candidate: Candidate) -> bool:
    matching = bool(bury.filters) and all(matches_filter(each, candidate.payload) for each in bury.filters)
    return matching or candidate.document in bury.ids


def _share(boost: Boost, payload: Payload) -> float:
    if boost.field is None:
        return float(all(matches_filter(each, payload) for each in boost.filters))
    amount = number(value_at(payload, boost.field), 0.0, _GREATEST) or 0.0
    return amount / (amount + boost.half)


def decide(sets: Sequence[RuleSet], text: str | None, at: Circumstances, columns: Mapping[str, str] = {}) -> Ruling:
    """The rules of these sets that hold for a query; a rule of one set hides those of its id in the sets behind.

    `columns` are those that a keyword expression may name.
    """
    words = read_words(text) if text is not None else []
    matches = _match(sets, words)
    found = _find(sets, words, matches, at)
    variants = (
        [*words[:start], *(Word(each, words[start].start, words[end - 1].end) for each in phrase), *words[end:]]
        for _, others, start, end in _synonyms(sets, matches, found, at)
        for phrase in others.values()
    )
    for variant in islice(variants, _VARIANTS):
        found = _find(sets, variant, _match(sets, variant), at) | found
    rules, said = [found[id_][0] for id_ in sorted(found)], {id_: part for id_, (_, part) in found.items()}
    # Only a rule with words rewrites.
    plain = not any(said.values()) or parse(text or "", columns).expression is None
    return Ruling(sets, text, at, words, matches, rules, said, plain)


def _match(sets: Sequence[RuleSet], words: Sequence[Word]) -> list[list[Match]]:
    return [each.match(words) for each in sets]


def _synonyms(
    sets: Sequence[RuleSet], matches: Sequence[Sequence[Match]], met: Collection[str], at: Circumstances
) -> Iterator[tuple[CompiledRule, Texts, int, int]]:
    """The synonyms of the words, by rules of which the text's condition is `met`, and the others hold."""
    if not any(matches):
        return iter(())
    of_sets = (((*each, start, end) for rules, start, end in some for each in rules.synonyms) for some in matches)
    found = _unhidden(sets, of_sets)
    return (each for each in found if (each[0].id in met if each[0].phrase else each[0].holds(at)))


def _find(
    sets: Sequence[RuleSet], words: Sequence[Word], matches: Sequence[Sequence[Match]], at: Circumstances
) -> dict[str, tuple[CompiledRule, list[Word]]]:
    """The rules whose conditions hold, by id, each with its words."""
    found: dict[str, tuple[CompiledRule, list[Word]]] = {}
    for rule, part in _unhidden(sets, (each.find(words, some) for each, some in zip(sets, matches, strict=True))):
        if rule.holds(at):
            found.setdefault(rule.id, (rule, []))[1].extend(part)
    return found


def _unhidden(sets: Sequence[RuleSet], findings: Iterable[Iterable[Any]]) -> Iterator[Any]:
    """Each set's findings, without the rules whose id a set before it has, too."""
    for at, found in enumerate(findings):
        for one in found:
            if not any(one[0].id in before.rules for before in sets[:at]):
                yield one


def _cuts(start: int, end: int, identifier: Token) -> bool:
    """True if the part has some of the identifier, and not all of it."""
    apart = identifier.end <= start or end <= identifier.start
    return not apart and not (start <= identifier.start and identifier.end <= end)


def _is_identifier(written: str) -> bool:
    return any(map(str.isdecimal, written)) and not any(map(str.isspace, written))
