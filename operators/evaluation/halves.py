"""Judged queries in two halves: one to tune on, one to report on. Pure."""

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple


class By(StrEnum):
    """The kind of the held-out half.

    `queries`: half of the queries of every namespace; the figures hold for new queries to the same namespaces.
    `namespaces`: half of the namespaces; the figures hold for namespaces that were not tuned on.
    """

    QUERIES = "queries"
    NAMESPACES = "namespaces"


class JudgedQuery(NamedTuple):
    """A query with all that assigns it to a half; queries of one namespace that ask the same are in one half."""

    query_id: str
    namespace: str
    asked: str


class Halves(NamedTuple):
    """The queries to tune on, and those held out; each in the order of their ids."""

    tuning: tuple[str, ...]
    held_out: tuple[str, ...]


def halves(queries: Iterable[JudgedQuery], by: By, seed: int) -> Halves:
    """Split the queries: the order is that of a hash of the seed and the query, so equal seeds give equal halves.

    By queries, the halves of a namespace differ by at most the largest group of queries that ask the same, and all
    differ by at most that, too. Source: own; a stratified, a grouped split.
    """
    namespaces: dict[str, dict[str, list[str]]] = {}
    for query in queries:
        group = query.asked if by is By.QUERIES else ""
        namespaces.setdefault(query.namespace, {}).setdefault(group, []).append(query.query_id)
    halves: _Sides = ([], [])
    for namespace in _shuffle(namespaces, seed) if by is By.NAMESPACES else sorted(namespaces):
        own: _Sides = ([], [])
        for group in _shuffle(namespaces[namespace], seed, namespace):
            _add(own, namespaces[namespace][group])
        _add(halves, *sorted(own, key=len, reverse=True))
    return Halves(*(tuple(sorted(half)) for half in halves))


_Sides = tuple[list[str], list[str]]


def _add(sides: _Sides, more: Iterable[str], fewer: Iterable[str] = ()) -> None:
    """Add `more` to the side that has fewer, of equal ones to the first, and `fewer` to the other."""
    behind, ahead = sorted(sides, key=len)
    behind.extend(more)
    ahead.extend(fewer)


def _shuffle(names: Iterable[str], seed: int, *within: str) -> list[str]:
    def key(name: str) -> tuple[bytes, str]:
        content = "\n".join([str(seed), *within, name]).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, digest_size=16).digest(), name

    return sorted(names, key=key)
