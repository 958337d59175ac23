"""Judged queries in two halves: one to tune on, one to report on. Pure."""

import hashlib
from collections.abc import Callable, Iterable
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
    namespaces = _group(queries, lambda query: query.namespace)
    halves = _Sides()
    for namespace in _shuffle(namespaces, seed) if by is By.NAMESPACES else sorted(namespaces):
        if by is By.NAMESPACES:
            halves.add([query.query_id for query in namespaces[namespace]])
            continue
        own = _Sides()
        asked = _group(namespaces[namespace], lambda query: query.asked)
        for question in _shuffle(asked, seed, namespace):
            own.add([query.query_id for query in asked[question]])
        halves.add(*sorted((own.first, own.second), key=len, reverse=True))
    return Halves(tuple(sorted(halves.first)), tuple(sorted(halves.second)))


class _Sides:
    def __init__(self) -> None:
        self.first: list[str] = []
        self.second: list[str] = []

    def add(self, more: Iterable[str], fewer: Iterable[str] = ()) -> None:
        """Add `more` to the side that has fewer, to the first if there is none, and `fewer` to the other."""
        ahead = len(self.first) > len(self.second)
        (self.second if ahead else self.first).extend(more)
        (self.first if ahead else self.second).extend(fewer)


def _group(queries: Iterable[JudgedQuery], key: Callable[[JudgedQuery], str]) -> dict[str, list[JudgedQuery]]:
    groups: dict[str, list[JudgedQuery]] = {}
    for query in queries:
        groups.setdefault(key(query), []).append(query)
    return groups


def _shuffle(names: Iterable[str], seed: int, *within: str) -> list[str]:
    def key(name: str) -> tuple[bytes, str]:
        content = "\n".join([str(seed), *within, name]).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, digest_size=16).digest(), name

    return sorted(names, key=key)
