"""Facts that change: of documents that say the same, the one that held at the asked time goes first.

Documents are versions of one another if they have nearly the same terms, by the marks that indexing keeps, the same
words of the query, and nearly the same score. A number of the query that none of them has may tell them apart in a way
that their words don't, so nothing changes then, unless it belongs to the time that the query names.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from operators.ranking.candidate import Candidate
from operators.ranking.marks import are_marks, read_marks
from operators.ranking.run import Alike, Run, stamp
from operators.text.dates import DAY, NamedTime
from operators.text.times import find_time
from schemas.document import MARKS
from schemas.recipes.stages import Versions

_WORD: Final = re.compile(r"\w+")

LEAST: Final = 0.25
"""Similarity from which a recorded pool has a pair of candidates."""

Pair = tuple[int, int]
"""The places of two candidates, the better one first."""


def versions(candidates: list[Candidate], stage: Versions, run: Run) -> list[Candidate]:
    """Let the versions of a group exchange places and scores: the newest first; if the query names a time, the newest
    from before its end, and behind these the later ones, the oldest first.

    A group is a candidate and those behind it whose score is at least (1 - margin) * its own, whose similarity to it is
    at least `similarity`, and that have the same words of the query. Where nothing is known of the candidates' words
    nothing changes. Source: own.
    """
    first = candidates[: stage.candidates]
    created = {place: said for place, each in enumerate(first) if (said := each.payload.get("created_at")) is not None}
    stamps = {place: when for place, said in created.items() if (when := stamp(said)) is not None}
    recorded = run.facts.alike
    if recorded is None:
        stamps = {place: when for place, when in stamps.items() if are_marks(first[place].payload.get(MARKS))}
    pairs = list(_pairs(first, stamps, stage.margin))
    if not pairs:
        return candidates
    run.alike = find_alike(first, pairs) if recorded is None else recorded
    if not run.alike:
        return candidates
    shares = (run.alike.get(first[one].id, {}).get(first[other].id, 0.0) for one, other in pairs)
    similar = {pair: share for pair, share in zip(pairs, shares, strict=True) if share >= stage.similarity}
    atoms = [unit for unit in run.words.units if unit.atoms == 1]
    if not similar or not atoms:
        return candidates
    words = [frozenset(unit.text for unit in atoms if each.id in unit.fields) for each in first]
    time = _named_time(run)
    asked = _numbers(unit.text for unit in atoms)
    named = _numbers(_WORD.findall(time.phrase)) if time is not None else set()
    ranked, scores = list(candidates), [each.score for each in candidates]
    values: dict[int, dict[str, Any]] = {}
    for places in _groups(similar, words):
        own = words[places[0]]
        if not asked <= own | named:
            continue
        # Numbers of a time that the versions have belong to what they are about, as in "rules 2019".
        until = time.end if time is not None and not (named and named <= own) else math.inf
        ordered = sorted(places, key=lambda index: _order(stamps[index], until))
        for number, (place, origin) in enumerate(zip(places, ordered, strict=True)):
            ranked[place] = first[origin]
            scores[origin] = first[place].score
            values[origin] = {
                "similarity": similar.get((places[0], origin), 1.0),
                "created_at": stamps[origin],
                "until": until if until < math.inf else None,
                "scores": [first[each].score for each in places],
                "rank": number,
            }
    if values:
        alone = {"similarity": None, "created_at": None, "until": None, "rank": 0}
        rows = [values.get(place) or {**alone, "scores": [each.score]} for place, each in enumerate(candidates)]
        run.rescore(stage, candidates, scores, {name: [row[name] for row in rows] for name in rows[0]})
    return ranked


def find_alike(candidates: Sequence[Candidate], pairs: Sequence[Pair]) -> Alike:
    """The similarity of each of these pairs, from LEAST on: that of the titles * the root of
    that of all terms, each by Jaccard.

    The title is the first of the searched fields; documents without any term in it have the same one. A title with all
    terms of the other one adds to it, as in "after the move", and is the same. Source: own; Jaccard 1901.
    """
    places = sorted({place for pair in pairs for place in pair})
    marked: list[str] = [candidates[place].payload[MARKS] for place in places]
    terms, titled = read_marks("".join(marked))
    known, columns = np.unique(terms, return_inverse=True)
    # Marks are of one length, and so the rows are shared out by the lengths.
    rows = np.repeat(places, np.array([len(each) for each in marked]) * len(terms) // sum(map(len, marked)))
    sets = np.zeros((2, places[-1] + 1, len(known)), np.float32)
    sets[0, rows, columns], sets[1, rows, columns] = 1, titled
    whole, titles = _jaccard(sets)
    least = np.minimum.outer(lengths := sets[1].sum(axis=1), lengths)
    titles[(sets[1] @ sets[1].T == least) & (least > 0)] = 1.0
    of_pairs = (titles * np.sqrt(whole))[tuple(zip(*pairs, strict=True))]
    alike: dict[str, dict[str, float]] = {}
    for number in np.flatnonzero(of_pairs >= LEAST).tolist():
        one, other = pairs[number]
        alike.setdefault(candidates[one].id, {})[candidates[other].id] = float(of_pairs[number])
    return alike


def _jaccard(sets: NDArray[np.float32]) -> NDArray[np.float64]:
    """The similarity of every two of some sets, each a row of 0 and 1; two empty ones are equal."""
    shared = (sets @ sets.transpose(0, 2, 1)).astype(np.float64)
    sizes = shared.diagonal(axis1=1, axis2=2)
    union = sizes[:, :, None] + sizes[:, None, :] - shared
    found: NDArray[np.float64] = (shared + (union == 0)) / np.maximum(union, 1)
    return found


def _pairs(first: Sequence[Candidate], stamps: Mapping[int, float], margin: float) -> Iterator[Pair]:
    """The pairs of candidates with different stamps whose scores are near."""
    places = list(stamps)
    for number, one in enumerate(places):
        score = first[one].score
        least = score - margin * abs(score)
        for other in places[number + 1 :]:
            if first[other].score < least:
                break
            if stamps[other] != stamps[one]:
                yield one, other


def _groups(similar: Mapping[Pair, float], words: Sequence[Set[str]]) -> Iterator[list[int]]:
    """The places of each group of versions, in their order: the first leads, and all are similar to it."""
    behind: dict[int, list[int]] = {}
    for one, other in similar:
        if words[one] == words[other]:
            behind.setdefault(one, []).append(other)
    grouped: set[int] = set()
    for leader, others in sorted(behind.items()):
        free = [place for place in (leader, *others) if place not in grouped]
        if len(free) > 1 and free[0] == leader:
            grouped.update(free)
            yield free


def _named_time(run: Run) -> NamedTime | None:
    """The time that the query names, by the rules, or else by whatever read it."""
    now, said = run.facts.now, run.facts.temporal_expression
    if now is None:
        return None
    found = find_time(run.facts.text, now, bare_year=True) if run.facts.text is not None else None
    return (
        NamedTime("", said, now - (said.days - said.tolerance) * DAY) if found is None and said is not None else found
    )


def _numbers(words: Iterable[str]) -> set[str]:
    return {word for word in words if any(letter.isdigit() for letter in word)}


def _order(created_at: float, until: float) -> tuple[bool, float]:
    return (False, -created_at) if created_at < until else (True, created_at)
