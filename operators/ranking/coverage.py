"""Coverage: how much of a query's words a document has, as evidence that it is the right one.

A match is evidence by what it says and by what supports it. A rare word says much. The other words of the query support
it in a document as far as the document has them, too, compared with the best candidate: so a year that stands in an
unrelated document says nothing, and it decides between two documents that are alike otherwise. A query that is one word
needs no support. All words are judged alike, whatever their shape.

Relevance is how well a candidate fits its query, from 0 to 1, by what means the same for every query; scores only order
the candidates of one query: the best has about the same one whether or not it fits.
"""

import math
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Candidate, Leg, best_first
from operators.ranking.fusion import bound
from operators.ranking.run import NO_WORDS, Evidence, Matches, QueryUnit, QueryWords, Run
from operators.text.folding import is_size
from operators.text.terms import READ_AS
from schemas.recipes.stages import Coverage

_NAME: Final = 3
"""Atoms from which on a form is a name with its stop words; of two, such as `setup`, most are verbs."""


def rarity(documents: int, frequency: int) -> float:
    """BM25's ln(1 + (N - df + 0.5) / (df + 0.5)), always positive. Source: the IDF of BM25 in Qdrant."""
    # Documents written between two counts are in one of them only.
    frequency = min(frequency, documents)
    return math.log1p((documents - frequency + 0.5) / (frequency + 0.5))


def find_units(matches: Matches, ids: Set[str]) -> list[QueryUnit]:
    """The units of a query: its atoms, and its words and forms of several atoms that one of these candidates has.

    A candidate has an atom if it has a word or form that covers it. A stop word, which is no word of the query, is one
    where a candidate writes it in a longer form: `touchmenot` has touch, `touchmenot:2` and `touchmenot:3`.
    """
    names: dict[tuple[int, int], str] = {}
    for word, (first, atoms) in matches.atoms.items():
        names.setdefault((first, atoms), word)
        if atoms >= _NAME and not matches.fields[word].keys().isdisjoint(ids):
            for atom in range(atoms):
                names.setdefault((first + atom, 1), f"{word}:{atom + 1}")
    fields: dict[tuple[int, int], Mapping[str, Sequence[str]]] = {span: {} for span in names}
    for word, (first, atoms) in matches.atoms.items():
        found = matches.fields[word]
        if not found.keys() <= ids:
            found = {id_: of for id_, of in found.items() if id_ in ids}
        for span in {(first, atoms), *((atom, 1) for atom in range(first, first + atoms))} & names.keys():
            # Most spans are named by one word, whose mapping serves as it is.
            fields[span] = _join(fields[span], found) if fields[span] else found
    greatest = rarity(len(ids), 1)
    return [
        QueryUnit(names[span], *span, having, rarity(len(ids), len(having)) / greatest)
        for span, having in sorted(fields.items())
        if having or span[1] == 1
    ]


def _join(one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    return {**one, **{id_: list(dict.fromkeys((*one.get(id_, ()), *fields))) for id_, fields in other.items()}}


def share_of_words(units: Sequence[QueryUnit]) -> dict[str, float]:
    """The share of the query's atoms that each candidate has, by their rarity; candidates without any are left out."""
    total, having = 0.0, dict[str, float]()
    for unit in units:
        if unit.atoms == 1:
            total += unit.rarity
            for id_ in unit.fields:
                having[id_] = having.get(id_, 0.0) + unit.rarity
    return {id_: rarity / total for id_, rarity in having.items()}


def find_unknown(matches: Matches, ids: Set[str]) -> Set[str]:
    """The words of a query that none of these candidates has, nor a form with them."""
    return {unit.text for unit in find_units(matches, ids) if unit.atoms == 1 and not unit.fields}


def find_query_words(legs: Sequence[Leg], matches: Matches | None) -> QueryWords:
    """The words of a query among the hits of its legs. Source: own.

    The credit of the words is twice the greatest share of the query that one candidate has, at most 1: where nobody has
    half of the query, those who have most of it were found by its lesser words.
    """
    if matches is None:
        return NO_WORDS
    units = find_units(matches, frozenset().union(*[leg.ids for leg in legs]))
    credit = min(1.0, 2 * max(share_of_words(units).values(), default=1.0))
    total = misspelt = 0.0
    for unit in units:
        if unit.atoms == 1:
            total += unit.rarity
            misspelt += unit.rarity if READ_AS in unit.text else 0.0
    return QueryWords(units, credit, misspelt / total if misspelt else 0.0)


def coverage(candidates: list[Candidate], stage: Coverage, run: Run) -> list[Candidate]:
    """Add weight * e / (1 + e), where e is the evidence of a candidate's words; behind a model once more.

    e is the credit of the query's words * the sum, over its units that the candidate has, of information * support. The
    information of a unit is (its rarity / that of a unit of one candidate)^`rarity`. Its support in a candidate is the
    information of the other atoms that the candidate has / the most that any candidate has of them; 1 where nobody has
    any. A candidate of one atom alone is no measure for the others, if some have more. Where nothing is known of the
    candidates' words nothing changes. Candidates that a stage left out stay a measure, so both gains are the same.
    Source: own.
    """
    again = run.evidence is not None
    if not run.words.units or (again and (run.model is None or run.model.selects)):
        return candidates
    if run.evidence is None:
        run.evidence = find_evidence(run.words.units, stage.rarity)
    if not run.evidence.sums:
        return candidates
    credit = run.words.credit
    sums = [credit * run.evidence.sums.get(candidate.id, 0.0) for candidate in candidates]
    scores = [one.score + stage.weight * each / (1 + each) for one, each in zip(candidates, sums, strict=True)]
    columns: dict[str, Sequence[object]] = {}
    if run.explanations is not None:
        said = _explain(run.words.units, run.evidence)
        columns = {"words": [said.get(each.id, {}) for each in candidates], "evidence": sums}
    return best_first(run.rescore(stage, candidates, scores, columns, {"credit": credit}))


def find_evidence(units: Sequence[QueryUnit], exponent: float) -> Evidence:
    """The evidence of a query's units, as `coverage` says; `exponent` is that of their rarity."""
    there = [unit for unit in units if unit.fields]
    columns: dict[str, int] = {}
    having = [[columns.setdefault(id_, len(columns)) for id_ in unit.fields] for unit in there]
    has = np.zeros((len(there), len(columns)))
    for row, places in zip(has, having, strict=True):
        row[places] = 1.0
    information = np.array([unit.rarity**exponent for unit in there])
    support = _find_support(there, information, has) if there else has
    sums = (information[:, np.newaxis] * support).sum(axis=0)
    return Evidence(dict(zip(columns, sums.tolist(), strict=True)), information, support)


def _find_support(
    units: Sequence[QueryUnit], information: NDArray[np.float64], has: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The support of each unit, a row, in each candidate, a column; `has` is 1 where the candidate has the unit.

    The atoms of an identifier, such as `1440p`, support each other, and need the support that the identifier needs. So
    do a number and its unit, which are one thing: nobody has several atoms by having these two.
    """
    atoms = np.array([place for place, unit in enumerate(units) if unit.atoms == 1], int)
    pairs = enumerate(pairwise([units[place] for place in atoms]))
    sized = [at for at, (one, other) in pairs if other.first - one.first == 1 and is_size(one.text + other.text)]
    whole: dict[int, QueryUnit] = {}
    for at in sized:
        size = units[atoms[at]]._replace(atoms=2)
        whole |= {size.first: size, size.first + 1: size}
    for unit in units:
        if unit.atoms > 1 and not unit.text.isalpha():
            whole = dict.fromkeys(range(unit.first, unit.first + unit.atoms), unit) | whole
    known = information[atoms, np.newaxis] * has[atoms]
    # The atoms outside a unit are summed from both ends: a difference of sums that are equal may not be 0.
    nothing = np.zeros_like(has[:1])
    ahead = np.concatenate((nothing, known.cumsum(axis=0)))
    behind = np.concatenate((known[::-1].cumsum(axis=0)[::-1], nothing))
    firsts = [units[place].first for place in atoms]
    both = has[atoms[sized]] * has[atoms[[at + 1 for at in sized]]]
    several = has[atoms].sum(axis=0) - both.sum(axis=0) > 1
    support: NDArray[np.float64] = has
    alike = [units]
    if whole:
        alike.append([whole.get(unit.first, unit) if unit.atoms == 1 else unit for unit in units])
    for spans in alike:
        starts = np.searchsorted(firsts, [unit.first for unit in spans])
        ends = np.searchsorted(firsts, [unit.first + unit.atoms for unit in spans])
        others = ahead[starts] + behind[ends]
        most = (others[:, several] if several.any() else others).max(axis=1, keepdims=True)
        support = np.minimum(support, np.where(most > 0, others / np.where(most > 0, most, 1.0), has))
    return support


def _explain(units: Sequence[QueryUnit], evidence: Evidence) -> dict[str, dict[str, Mapping[str, object]]]:
    columns = {id_: column for column, id_ in enumerate(evidence.sums)}
    said: dict[str, dict[str, Mapping[str, object]]] = {id_: {} for id_ in columns}
    there = (unit for unit in units if unit.fields)
    for unit, info, row in zip(there, evidence.information.tolist(), evidence.support.tolist(), strict=True):
        for id_, fields in unit.fields.items():
            said[id_][unit.text] = {"information": info, "support": row[columns[id_]], "fields": list(fields)}
    return said


_WORDS: Final = 0.25
_COSINE: Final = 0.2
_MODEL: Final = 0.55

_DECIMALS: Final = 6


def _sigmoid(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-700.0, min(700.0, logit))))


class Relevance:
    """The relevance of a query's candidates, each worked out where it is asked for: a page has a few of them."""

    __slots__ = ("_parts", "_whole")

    def __init__(self, vector: Leg | None, run: Run) -> None:
        """The parts that are known: the weight of each, a score by id, that of other ids, and if scores are logits."""
        self._parts: list[tuple[float, Mapping[str, float], float, bool]] = []
        if run.words.units:
            self._parts.append((_WORDS, share_of_words(run.words.units), 0.0, False))
        if vector is not None and vector.ids:
            cosines = vector.scores_by_id()
            self._parts.append((_COSINE, cosines, bound(cosines), False))
        model = run.model
        if model is not None and not model.selects and model.scores and model.measure != "order":
            self._parts.append((_MODEL, model.scores, min(model.scores.values()), model.measure == "logit"))
        self._whole = math.fsum([part[0] for part in self._parts])

    def of(self, id_: str) -> float | None:
        """A candidate's relevance: the mean of the parts that are known, weighted; None where none is.

        - The share of the query's words that it has, each by its weight, a word that no candidate has among them: 0.25.
        - Its cosine, at least 0; of one that the vector leg did not return, the bound: 0.2.
        - The model's score; of one that it did not read, the least of those that it read: 0.55.

        Source: own.
        """
        if not self._parts:
            return None
        total = 0.0
        for weight, known, least, are_logits in self._parts:
            score = known.get(id_, least)
            total += weight * (_sigmoid(score) if are_logits else min(1.0, max(0.0, score)))
        return round(total / self._whole, _DECIMALS)
