"""Rules: those of a topic's namespaces, compiled once, and found by the words of a query.

The words of a condition and of a query are folded as the analysis folds them: case, accents, width. `contains` holds
where its words stand side by side.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from operators.access.filters import on_fields
from operators.text.analysis import is_unspaced
from operators.text.folding import fold, fold_accents
from operators.text.words import WORD
from schemas.errors import invalid
from schemas.filters import Eq, Exists, FieldFilter
from schemas.rule import EVERYWHERE, MAX_WORDS, NamesReader, Rule, read_rule, read_rule_key
from schemas.settings.qdrant import language_tag

_WORD: Final = re.compile(rf"{WORD}(?:\+\+|[+#](?!\w))?")


Phrase = tuple[str, ...]
Texts = Mapping[str, Phrase]
"""Texts of a rule, as they are written, and their words."""


class Word(NamedTuple):
    """A word as rules compare it, and its place in the text as written."""

    text: str
    start: int
    end: int


def read_words(text: str) -> list[Word]:
    """The words of a query's or of a condition's text; of scripts without spaces each character is one."""
    if text.isascii():
        return [Word(each[0], *each.span()) for each in _WORD.finditer(text.lower())]
    folded, found = fold(text), list[Word]()
    for each in _WORD.finditer(folded.text):
        for start, end in _divide(folded.text, *each.span()):
            word = fold_accents(folded.text[start:end]).lower()
            found.append(Word(word, *folded.locate(start, end)))
    return found


def _divide(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for place in range(start, end):
        if is_unspaced(text[place]):
            if start < place:
                yield start, place
            yield place, place + 1
            start = place + 1
    if start < end:
        yield start, end


class Circumstances(NamedTuple):
    """A query's source, its clock in Unix seconds, and the language that it names."""

    source: str | None
    now: float
    lang: str | None = None

    @property
    def tags(self) -> frozenset[str]:
        """The tags of the language: `de-at` and `de`; none without one."""
        tag = language_tag(self.lang) if self.lang is not None else ""
        return frozenset({tag, tag.partition("-")[0]} - {""})


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule with its words read: the `phrase` of its condition, and for each phrase its `synonyms`."""

    id: str
    value: bytes
    rule: Rule
    phrase: Phrase
    synonyms: Mapping[Phrase, Texts]

    @classmethod
    def of(cls, id_: str, value: bytes, read: NamesReader = dict) -> "CompiledRule":
        """`read` gives the object with the index's names.

        Raises InputError, also for a text without words, or with more than MAX_WORDS.
        """
        rule = read_rule(value, read)
        synonyms = dict[Phrase, Texts]()
        if (said := rule.then.synonyms) is not None:
            asked = _phrases(said.words or said.from_ or (), "then.synonyms")
            others = asked if said.to is None else _phrases(said.to, "then.synonyms.to")
            for each in asked.values():
                synonyms[each] = {text: other for text, other in others.items() if other != each}
        text = rule.when.exact or rule.when.contains
        phrase = _phrases([text], "when")[text] if text is not None else ()
        return cls(id_, value, rule, phrase, synonyms)

    @property
    def named(self) -> list[FieldFilter]:
        """The filters that a document passes which has a field, or is a document, that the effects name."""
        then = self.rule.then
        filtered = [each for each in (then.bury, then.boost, then.rewrite) if each is not None]
        fields = {each.field for effect in filtered for _, each in on_fields(effect.filters, "")}
        numbers = (then.boost, then.rewrite.order_by if then.rewrite is not None else None)
        fields |= {each.field for each in numbers if each is not None and each.field is not None}
        ids = [*(pin.id for pin in then.pin or ()), *(then.bury.ids if then.bury is not None else ())]
        there = map(Exists.on, sorted(fields))
        return [*there, *(Eq(field="id", op="eq", value=each) for each in ids)]

    def holds(self, at: Circumstances) -> bool:
        """True if the conditions other than the text's hold."""
        when = self.rule.when
        timely = (when.from_ is None or when.from_ <= at.now) and (when.until is None or at.now < when.until)
        spoken = when.languages is None or not at.tags.isdisjoint(map(language_tag, when.languages))
        return timely and spoken and (when.sources is None or at.source in when.sources)


def _phrases(texts: Sequence[str], field: str) -> Texts:
    phrases = {text: tuple(word.text for word in read_words(text)) for text in texts}
    for text, phrase in phrases.items():
        if not 1 <= len(phrase) <= MAX_WORDS:
            raise invalid(field, f"1 to {MAX_WORDS} words are expected", text)
    return phrases


@dataclass(slots=True)
class PhraseRules:
    """The rules of one phrase: those whose condition it is, and those with its synonyms."""

    conditions: list[CompiledRule] = field(default_factory=list)
    synonyms: list[tuple[CompiledRule, Texts]] = field(default_factory=list)


Match = tuple[PhraseRules, int, int]
"""A phrase of a rule in a text, from one number of a word to another."""


class RuleSet:
    """The rules of one namespace, by the words that they need; it never changes. None stands in place of a rule that is
    taken away: it hides those of its id in the sets behind.

    `version` is the same for the same rules on every replica, in whatever order they came: the XOR of their hashes of
    64 bits (Bellare and Micciancio 1997), as 16 hexadecimal digits.
    """

    def __init__(self, rules: Mapping[str, CompiledRule | None]) -> None:
        self.rules = rules
        self._phrases = defaultdict[Phrase, PhraseRules](PhraseRules)
        self._always: list[CompiledRule] = []
        version = 0
        for id_, rule in rules.items():
            value = rule.value if rule is not None else b""
            version ^= int.from_bytes(hashlib.sha256(id_.encode() + b"\0" + value).digest()[:8])
            if rule is None:
                continue
            for phrase, texts in rule.synonyms.items():
                self._phrases[phrase].synonyms.append((rule, texts))
            if rule.phrase:
                self._phrases[rule.phrase].conditions.append(rule)
            elif rule.rule.then.model_fields_set != {"synonyms"}:
                self._always.append(rule)
        self.version = f"{version:016x}"
        self._longest: dict[str, int] = {}
        """The number of words of the longest phrase, by the first of them."""
        for phrase in self._phrases:
            self._longest[phrase[0]] = max(len(phrase), self._longest.get(phrase[0], 0))

    def match(self, words: Sequence[Word]) -> list[Match]:
        """The phrases of the rules in a text."""
        if not self._phrases:
            return []
        texts, found = [word.text for word in words], list[Match]()
        for start, text in enumerate(texts):
            for end in range(start + 1, min(start + self._longest.get(text, 0), len(texts)) + 1):
                if (rules := self._phrases.get(tuple(texts[start:end]))) is not None:
                    found.append((rules, start, end))
        return found

    def find(self, words: Sequence[Word], matches: Sequence[Match]) -> Iterator[tuple[CompiledRule, Sequence[Word]]]:
        """The rules whose condition of the text holds, each with the words that say so."""
        yield from ((rule, ()) for rule in self._always)
        for rules, start, end in matches:
            for rule in rules.conditions:
                if rule.rule.when.exact is None or end - start == len(words):
                    yield rule, words[start:end]


NO_RULES: Final = RuleSet({})


class RuleTable:
    """All rules, as the topic's records say. One thread may call it at a time.

    `read` gives a rule with the index's names of fields.
    """

    def __init__(self, read: NamesReader = dict) -> None:
        self._read = read
        self._rules: dict[str, dict[str, CompiledRule]] = {}
        self._sets: dict[str, RuleSet] = {}

    def __len__(self) -> int:
        # The metrics count while records are applied.
        return sum(map(len, [*self._rules.values()]))

    def __iter__(self) -> Iterator[tuple[str, CompiledRule]]:
        """Each rule with its namespace, in their order."""
        return ((name, each[id_]) for name, each in sorted(self._rules.items()) for id_ in sorted(each))

    def put(self, key: bytes, value: bytes | None) -> None:
        """Apply a record. Raises InputError if it is no rule: then the rule before stays in force."""
        namespace, id_ = read_rule_key(key)
        if value is not None:
            self._rules.setdefault(namespace, {})[id_] = CompiledRule.of(id_, value, self._read)
        elif namespace in self._rules:
            self._rules[namespace].pop(id_, None)
            if not self._rules[namespace]:
                del self._rules[namespace]
        self._sets.pop(namespace, None)

    def of(self, namespace: str) -> Sequence[RuleSet]:
        """The namespace's own rules, and those for all, as they are now; empty without any."""
        if namespace not in self._rules and EVERYWHERE not in self._rules:
            return ()
        return [self._set(namespace), self._set(EVERYWHERE) if namespace != EVERYWHERE else NO_RULES]

    def _set(self, namespace: str) -> RuleSet:
        if namespace not in self._rules:
            return NO_RULES
        if namespace not in self._sets:
            self._sets[namespace] = RuleSet({**self._rules[namespace]})
        return self._sets[namespace]
