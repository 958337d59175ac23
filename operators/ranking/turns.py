"""The turns of a conversation: its messages that ask, its messages that answer, and their speakers."""

import re
from collections.abc import Collection
from typing import Final

from operators.ranking.candidate import Candidate, Payload, best_first
from operators.ranking.content import content, contents, distinct_words
from operators.ranking.properties import Document
from operators.ranking.run import Run
from operators.text.phrases import ASKING, classify_text
from schemas.document import COLUMNS, NEIGHBOURS
from schemas.recipes.stages import AnswersFirst, SpeakersFirst

_SENTENCE: Final = re.compile("([^.!?…。！？؟\n]+)(.?)", re.DOTALL)

_SPEAKER: Final = re.compile(r"^([^\W\d_][\w'’-]*)(?: [^\W\d_][\w'’.-]*){0,3}:\s", re.MULTILINE)
"""The name of up to four words with which a line begins, such as `Ann Lee: `: the first of its words."""

_NAME: Final = re.compile(r"([^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,3})(?: <[^<>]*>)?")
"""A whole name of up to four words; behind it there may be an address, as in mails."""

_RECEIVING: Final = frozenset({"to", "cc", "bcc", "recipient", "recipients"})
"""Names of fields with those who did not speak."""


def rank_answers(candidates: list[Candidate], stage: AnswersFirst, run: Run) -> list[Candidate]:
    """score - weight * q * |score| + passed * q' * score', with q the share of a candidate's text that is questions;
    q' and score' are those of the document before it. A query that is no question changes nothing.

    A message that asks often has more of the query's words than the one that answers it, and the answer follows.
    Source: own; questions and answers are pairs of turns (Schegloff and Sacks 1973, "Opening up Closings").
    """
    if classify_text(run.facts.text or "") != "question":
        return candidates
    shares = [share_of_questions(each) for each in contents(run.facts.visible(each.payload) for each in candidates)]
    asked = {each.id: share * max(0.0, each.score) for each, share in zip(candidates, shares, strict=True)}
    before = [asked.get(_find_before(each), 0.0) for each in candidates]
    scores = [
        candidate.score - stage.weight * share * abs(candidate.score) + stage.passed * question
        for candidate, share, question in zip(candidates, shares, before, strict=True)
    ]
    return best_first(run.rescore(stage, candidates, scores, {"questions": shares, "before": before}))


def _find_before(candidate: Candidate) -> str:
    """The id of the document before a candidate in its context; an empty one if none is known."""
    window = ["", *(candidate.payload.get(NEIGHBOURS) or ())]
    return window[window.index(candidate.id) - 1] if candidate.id in window else ""


def share_of_questions(text: str) -> float:
    """The share of a text's characters, but ends of sentences, that stand in questions."""
    read = [(len(sentence), end in ASKING) for sentence, end in _SENTENCE.findall(text)]
    return sum(length for length, asks in read if asks) / (sum(length for length, _ in read) or 1)


def rank_speakers(candidates: list[Candidate], stage: SpeakersFirst, run: Run) -> list[Candidate]:
    """score - weight * |score| for a message of others, if the query names a speaker of another message.

    A line that begins with `Name: ` is a turn of that speaker, and a field that is a name, such as `author`, has one.
    A message whose speaker is unknown keeps its score.

    Source: own.
    """
    speakers = [find_speakers(run.facts.visible(each.payload)) for each in candidates]
    named = distinct_words(run.facts.text or "").intersection(frozenset().union(*speakers))
    if not named:
        return candidates
    others = [bool(each) and named.isdisjoint(each) for each in speakers]
    scores = [
        candidate.score - stage.weight * abs(candidate.score) * other
        for candidate, other in zip(candidates, others, strict=True)
    ]
    return best_first(run.rescore(stage, candidates, scores, {"other": others}))


def find_speakers(payload: Payload) -> Collection[str]:
    """The folded names of a message's speakers: first names of turns, and all words of fields."""
    fields = Document(payload).fields.items()
    values = (each.value for path, held in fields if path not in _RECEIVING.union(COLUMNS) for each in held)
    names = (found[1] for each in values if isinstance(each, str) and (found := _NAME.fullmatch(each)))
    return distinct_words(" ".join([*_SPEAKER.findall(content(payload)), *names]))
