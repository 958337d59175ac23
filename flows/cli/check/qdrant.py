"""The findings of `rankstream check` about Qdrant: whether it answers, and whether each collection fits."""

from collections.abc import Iterator
from typing import Final

from flows.assembly.clients import InProcess
from flows.assembly.collections import read_version, survey_collections
from flows.cli.check import Finding
from operators.collections.gaps import find_server_gaps
from operators.collections.requirements import CORRECT, INDEXES, STOPPED, VECTORS, Gap, Severity, Surveyed, merge_gaps
from schemas.errors import ConfigError, IndexInUse, Reason
from schemas.settings import Settings

_TIMEOUT: Final = 10.0

_OUTAGES: Final = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.BAD_RESPONSE})

_OWNERS: Final = {
    "metadata": "the collection is rankstream's own",
    "configuration": "the collection is rankstream's own, by qdrant.owned",
}

_DENIED: Final = "Correct qdrant.api_key, or give the key access to this collection by the name in the configuration."
_UNREADABLE: Final = "Correct qdrant.url, or see the log of Qdrant."

_FITTING: Final = {
    VECTORS | {"contexts"}: "the vectors fit the configuration",
    INDEXES | {"missing index"}: "the indexes are there",
}
"""Kinds of gaps, and what is so where a collection has none of them."""


def check_qdrant(settings: Settings, in_process: InProcess) -> Iterator[Finding]:
    """The findings about Qdrant and each configured collection."""
    try:
        surveyed = survey_collections(settings, in_process, _TIMEOUT)
    except IndexInUse:
        of_flow = f"{settings.qdrant.path} is open in another process, as while `rankstream run --with-indexing` runs"
        yield Finding("ok", "qdrant", f"not looked at: {of_flow}, so its collections, vectors and indexes are not seen")
        return
    except (ConfigError, TimeoutError) as error:
        remedy = f"Correct {'the section qdrant' if settings.qdrant.url else 'qdrant.path'}."
        yield Finding("error", "qdrant", str(error) or "no answer in time", remedy)
        return
    outages = [each.error for each in surveyed if each.error is not None and each.error.reason in _OUTAGES]
    if len(outages) == len(surveyed):
        remedy = "Start Qdrant, or correct qdrant.url, which names its HTTP port (6333), and what the network allows."
        yield Finding("error", "qdrant", f"no answer: {outages[0]}", remedy)
        return
    yield Finding("ok", "qdrant", f"{settings.qdrant.url or f'the engine on {settings.qdrant.path}'} answers")
    for gap in find_server_gaps(read_version(settings, in_process, _TIMEOUT)):
        yield _finding("qdrant", gap)
    for each in surveyed:
        subject = f"qdrant {each.name}"
        if each.error is not None:
            denied = each.error.reason is Reason.UNAUTHORIZED
            yield Finding("error", subject, str(each.error), _DENIED if denied else _UNREADABLE)
        else:
            yield from _collection(subject, each)


def _collection(subject: str, surveyed: Surveyed) -> Iterator[Finding]:
    if surveyed.info is not None:
        alias = f", by its alias {surveyed.name}" if surveyed.physical != surveyed.name else ""
        points = f"with {surveyed.info.points} points"
        yield Finding("ok", subject, f"the collection {surveyed.physical} is there{alias}, {points}")
    if surveyed.owner is not None:
        yield Finding("ok", subject, _OWNERS[surveyed.owner])
    for gap in merge_gaps(each for each in surveyed.gaps if each.kind != "unread"):
        yield _finding(subject, gap)
    stopping = [each.what for each in surveyed.gaps if each.stops and each.kind in VECTORS - {"dense"}]
    if stopping:
        yield Finding("error", subject, f"{STOPPED}: {'; '.join(stopping)}", CORRECT)
    there = {each.kind for each in surveyed.gaps}
    for kinds, what in _FITTING.items():
        if surveyed.info is not None and not kinds & there:
            yield Finding("ok", subject, what)


def _finding(subject: str, gap: Gap) -> Finding:
    if gap.severity == Severity.NONE:
        return Finding("ok", subject, str(gap))
    return Finding("error" if gap.severity >= Severity.ERROR else "warning", subject, str(gap), gap.cure)
