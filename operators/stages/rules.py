"""Rules: a query takes its namespace's rules at admission, and keeps them to its answer.

The words that rules take away are gone before any backend reads the text. Synonyms are terms of the keyword leg, and
evidence of ranking where they are one word: for it a document with the synonym has the query's word. The dense leg and
rerankers read the text without them. A keyword expression has no synonyms: it says exactly what it looks for. Nor has a
collection whose server makes the terms. Rules that a query tries are a set of its own, ahead of those in force.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import orjson
from pydantic import JsonValue

from operators.collections.analysers import Bm25
from operators.query.canonical import Query, canonicalise
from operators.query.in_flight import InFlight
from operators.query.rules import NO_RULES, Circumstances, CompiledRule, RuleSet
from operators.query.ruling import Expansion, Ruling, decide
from operators.stages.admit import Admission
from operators.text.terms import QueryWord, query_vector
from schemas.errors import InputError, invalid
from schemas.query import QueryShape

_MOST_TRIED: Final = 16_384
"""Bytes of a query's own rules: each candidate is compared with their filters."""

_NOT_REWRITTEN: Final = "rules: what they put in place of words of the text can't be asked here: the words stay"


@dataclass(frozen=True)
class RuledAdmission:
    """Admission by the rules of the query's namespace, as they are now: `rules` has its own, and those for all."""

    admit: Admission
    rules: Callable[[str], Sequence[RuleSet]]

    def __call__(self, query: InFlight) -> InFlight:
        """Admit the query as its rules have it. Raises InputError as admission does, for what the query says itself."""
        asked = query.asked
        sets = self.rules(asked.namespace)
        if asked.event.rules:
            sets = [read_tried(asked.event.rules), *(sets or (NO_RULES, NO_RULES))]
        searched = asked.shape is QueryShape.SEARCH and not asked.event.reflections_only
        if not sets or not searched or asked.denial is not None:
            return self.admit(query)
        at = Circumstances(asked.source, asked.now, asked.event.lang)
        ruling = decide(sets, asked.event.text, at, self.admit.columns)
        try:
            query.asked = rewrite(asked, ruling)
            self.admit(query)
        except InputError:
            if not ruling.rewriting:
                raise
            query.asked, ruling = asked, replace(ruling, rewrites=False)
            self.admit(query)
            query.outcome.warnings.append(_NOT_REWRITTEN)
        if query.asked.shape is not QueryShape.SEARCH:
            # Without words left it is a lookup: it has no ranking that the other effects could change.
            ruling = replace(ruling, rules=ruling.rewriting)
        parsed = query.retrieval.parsed
        if parsed is not None and parsed.expression is None and query.retrieval.capabilities.has("sparse"):
            ruling = ruling.expand(parsed.terms)
            self._add(query, ruling.expansions)
        if ruling.rewriting:
            ruling = replace(ruling, bound=asked.text)
        query.asked = replace(query.asked, ruling=ruling)
        # Answers and cursors are of this version, and of the rules that work: their conditions depend on the time.
        scope = query.cache.scope
        query.cache.scope = replace(scope, config_hash=f"{scope.config_hash} {ruling.version} {ruling.ids}")
        return query

    def _add(self, query: InFlight, expansions: Sequence[Expansion]) -> None:
        """Add the synonyms to the query's terms, and to the words of which ranking finds evidence."""
        retrieval, analyser = query.retrieval, self.admit.catalogue.analyser(query.asked.collection)
        own = {word.text for word in retrieval.words}
        terms, evidence = [*retrieval.words], [*retrieval.words]
        for each in expansions:
            for word in _words(analyser, each.text):
                if word.text not in own:
                    weighed = QueryWord(word.text, word.terms, each.first, each.atoms, word.weight * each.weight)
                    terms.append(weighed)
                    if len(each.words) == 1:
                        evidence.append(weighed)
        if expansions:
            retrieval.words, retrieval.terms = evidence, query_vector(terms)


# Synonyms are few, and come again.
@lru_cache(4096)
def _words(analyser: Bm25, text: str) -> Sequence[QueryWord]:
    return analyser.words(text)


def read_tried(rules: Mapping[str, JsonValue]) -> RuleSet:
    """The rules that a query tries, and takes away. Raises InputError, whose field is that of the query."""
    if (size := len(orjson.dumps(rules))) > _MOST_TRIED:
        raise invalid("rules", f"at most {_MOST_TRIED} bytes of JSON are expected", size)
    tried = dict[str, CompiledRule | None]()
    for id_, rule in rules.items():
        try:
            tried[id_] = CompiledRule.of(id_, orjson.dumps(rule)) if rule is not None else None
        except InputError as error:
            at = f"rules.{id_}"
            if error.field is None:
                raise InputError(error.kind, f"{at}: {error}", at) from error
            raise InputError(error.kind, f"{at}.{error}", f"{at}.{error.field}") from error
    return RuleSet(tried)


def rewrite(asked: Query, ruling: Ruling) -> Query:
    """The query with filters and an order in place of the words that rules take away; its own order goes before."""
    rewrites = [each for rule in ruling.rewriting if (each := rule.rule.then.rewrite) is not None]
    if not rewrites:
        return asked
    event = asked.event
    orders = (each.order_by for each in rewrites if each.order_by is not None)
    filters = [*event.filters, *(wanted for each in rewrites for wanted in each.filters)]
    order_by = event.order_by if event.order_by is not None else next(orders, None)
    event = event.model_copy(update={"text": ruling.take_away(), "filters": filters, "order_by": order_by})
    again = canonicalise(
        event, asked.plan, asked.source, asked.destination, asked.namespace, asked.now, asked.cursor, asked.reply
    )
    plan = asked.plan if again.shape is QueryShape.SEARCH else replace(asked.plan, grouping=None)
    return replace(asked, event=event, plan=plan, text=again.text, shape=again.shape, understood=again.understood)
