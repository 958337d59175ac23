"""Measures of a model behind a server: how quickly it reads, and the longest text that it takes.

The texts are of one common word and numbers. A few calls are made, none of them twice: they say of what order a figure
is, and no more.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.errors import BackendError
from schemas.texts import printable

_MOST: Final = 32
"""Most texts of the call whose time is taken."""

_CHARS: Final = 512
"""Characters of each of them."""

_LENGTHS: Final = tuple(_CHARS << doubled for doubled in range(1, 8))
"""Characters of the texts that are tried, up to 65,536."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Findings: something `wrong` with an answer, the `refusal` of a full call, and facts in words."""

    wrong: str | None = None
    refusal: str | None = None
    facts: tuple[str, ...] = ()


async def measure_server(ask: Callable[[Sequence[str]], Awaitable[object]], most: int) -> Measured:
    """Measure a server that answers `ask` for a short text, in calls of at most `most` texts.

    `ask` raises BackendError for a text that is not taken.
    """
    texts = [_text(_CHARS, number) for number in range(min(most, _MOST))]
    refusal, facts = None, []
    started = time.monotonic()
    try:
        await ask(texts)
    except BackendError as error:
        refusal = f"it does not answer a call of {len(texts)} texts of {_CHARS} characters: {explain(error)}"
    else:
        speed = len(texts) * _CHARS / (time.monotonic() - started)
        facts.append(f"{speed:,.0f} characters a second")
    longest, why = len(_WORD), None
    for length in _LENGTHS:
        try:
            await ask([_text(length, 0)])
        except BackendError as error:
            why = f"{length:,} not: {explain(error)}"
            break
        longest = length
    taken = f"a text of {longest:,} characters is taken"
    facts.append(f"{taken}, of {why}" if why else f"{taken}, whole or cut")
    return Measured(None, refusal, tuple(facts))


def explain(error: BackendError, section: str = "") -> str:
    """The error, and the server's own words: the texts here are nobody's, so they may be quoted."""
    symptom = str(error).removeprefix(f"{section}: ")
    return printable(f"{symptom}: {error.quoted}" if error.quoted else symptom)


_WORD: Final = "water "


def _text(length: int, number: int) -> str:
    return (f"{number} " + _WORD * length)[:length]
