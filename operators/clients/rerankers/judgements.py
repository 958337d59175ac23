"""From a cross-encoder's JSON to relevance: what the dialects' answers have in common.

An answer is read whole or not at all: one wrong entry and nothing of it is used.
"""

import math
from typing import Any

from operators.clients.http import float32
from operators.clients.http.indexed import indexed
from schemas.errors import BackendBadResponse
from schemas.fields import MAX_FLOAT32


def within(answer: object, name: str) -> Any:
    """What an answer that is an object holds under `name`; None if it holds nothing there, or is anything else."""
    return answer.get(name) if isinstance(answer, dict) else None


def judgements(entries: object, key: str, count: int, *, backend: str) -> dict[int, float]:
    """Read a list of {index, `key`} as index -> relevance; documents may be left out.

    Raises BackendBadResponse, for the whole list, if a score isn't a finite number of 32 bits (a boolean isn't one) or
    an index repeats or isn't one of 0..`count` - 1.
    """
    scores = indexed(entries, key, count, backend=backend)
    values = scores.values()
    if set(map(type, values)) <= {float} and float32.fit(values):
        return scores
    return {index: relevance(score, backend=backend) for index, score in scores.items()}


def full_judgements(entries: object, key: str, count: int, *, backend: str) -> dict[int, float]:
    """Like `judgements`, of a server that scores all that it is sent: BackendBadResponse if one is left out."""
    found = judgements(entries, key, count, backend=backend)
    if len(found) != count:
        raise BackendBadResponse(f"{backend}: {len(found)} scores for {count} texts")
    return found


def relevance(score: object, *, backend: str) -> float:
    """Read one score; raises BackendBadResponse if it isn't a finite number of 32 bits."""
    if type(score) is int or type(score) is float:
        try:
            number = float(score)
        except OverflowError:
            number = math.inf
        if abs(number) <= MAX_FLOAT32:
            return number
    raise BackendBadResponse(f"{backend}: a score that is not a finite number of 32 bits")
