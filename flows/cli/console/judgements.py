"""Judgements that are made on the page: a qrels file that `evaluate` reads, and the set of queries that it is about.

A grade is written at once, to a new file that takes the old one's place. Judged queries that the set lacks are added to
its file: both are what `evaluate` takes. A line of the set may be a recorded result, whose query is that of its pool.
"""

import hashlib
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from flows.cli.evaluate.evaluation import read_qrels
from flows.cli.ingestion import numbered_jsonl
from operators.evaluation.metrics import qrels_lines
from schemas.errors import DeadLetterClass, InputError, invalid
from schemas.texts import nfc

GRADES: Final = range(4)
"""Grades of a document: 0 is not relevant, 3 is perfect."""


class JudgementFile:
    """The grades of a qrels file, and the queries of a set, by id."""

    def __init__(self, qrels: Path, queries: Path | None = None) -> None:
        """Read both files, as far as they are there. Raises InputError naming the wrong line."""
        self.qrels = qrels
        self.queries = queries if queries is not None else qrels.with_name(f"{qrels.stem}.queries.jsonl")
        self._lock = threading.Lock()
        self.grades: dict[str, Mapping[str, int]] = dict(read_qrels(qrels)) if qrels.exists() else {}
        self.set: dict[str, dict[str, Any]] = {}
        if queries is not None and not queries.exists():
            raise InputError(DeadLetterClass.INVALID, f"{queries}: no such file")
        if self.queries.exists():
            for number, document in numbered_jsonl(self.queries):
                query, wrong = _read_query(document), ""
                if not isinstance(id_ := query.get("query_id"), str):
                    wrong = "query_id: missing, or not a string"
                elif "result_id" in query:
                    wrong = "a result without its pool (record: true)"
                # A topic may hold a recorded result twice.
                elif self.set.setdefault(id_, query) != query:
                    wrong = f"query_id: another query has {id_}"
                if wrong:
                    raise InputError(DeadLetterClass.INVALID, f"{self.queries}:{number}: {wrong}")

    def query_of(self, text: str, namespace: str) -> str:
        """The id of a query with this text in this namespace: the set's, or one that is made of both."""
        asked = _plain(text)
        for id_, query in self.set.items():
            if _plain(str(query.get("text"))) == asked and query.get("namespace", namespace) == namespace:
                return id_
        return name_query(text, namespace)

    def grades_of(self, query: str) -> Mapping[str, int]:
        """The grades of a query's documents."""
        return self.grades.get(query, {})

    def judge(self, text: str, namespace: str, document: str, grade: int | None) -> int | None:
        """Give a document a grade, None takes it back, and return the one before. Raises InputError and OSError."""
        if grade is not None and grade not in GRADES:
            raise invalid("grade", f"0 to {GRADES[-1]} is expected", grade)
        if not text.strip():
            raise InputError(DeadLetterClass.INVALID, "text: a query without a text can't be judged")
        if not document:
            raise InputError(DeadLetterClass.INVALID, "id: missing")
        with self._lock:
            query = self.query_of(text, namespace)
            before = self.grades_of(query).get(document)
            given = {**self.grades_of(query), document: grade}
            of_query = {name: each for name, each in given.items() if each is not None}
            changed = {id_: grades for id_, grades in {**self.grades, query: of_query}.items() if grades}
            self._write(changed)
            self.grades = changed
            if query not in self.set and grade is not None:
                self._add(query, text, namespace)
            return before

    def _write(self, grades: Mapping[str, Mapping[str, int]]) -> None:
        """Write all grades to a file of its own first: nobody reads half of them."""
        lines = (line for query, of in grades.items() for line in qrels_lines(query, of))
        temporary = self.qrels.with_name(f".{self.qrels.name}.{os.getpid()}")
        temporary.write_text("".join(lines), encoding="utf-8")
        temporary.replace(self.qrels)

    def _add(self, query: str, text: str, namespace: str) -> None:
        event = {"query_id": query, "namespace": namespace, "text": text}
        ended = not self.queries.exists() or not (read := self.queries.read_bytes()) or read.endswith(b"\n")
        with self.queries.open("ab") as file:
            file.write((b"" if ended else b"\n") + orjson.dumps(event) + b"\n")
        self.set[query] = event

    def to_view(self) -> dict[str, Any]:
        """The set for the page, with the number of judged documents of each query, and where both are kept."""
        return {
            "queries": [
                {
                    "id": id_,
                    **{name: query.get(name) for name in ("text", "namespace", "kind")},
                    "judged": len(self.grades_of(id_)),
                    "relevant": sum(grade > 0 for grade in self.grades_of(id_).values()),
                }
                for id_, query in self.set.items()
            ],
            "qrels": str(self.qrels),
            "file": str(self.queries),
            "judged": sum(len(grades) for grades in self.grades.values()),
            "revision": hashlib.blake2b(repr(self.grades).encode(), digest_size=8).hexdigest(),
        }


def _read_query(document: dict[str, Any]) -> dict[str, Any]:
    """The query of a line: the line itself, or that of the pool that a recorded result carries."""
    match document:
        case {"result_id": _, "pool": {"query": dict(query)}}:
            return query
    return document


def name_query(text: str, namespace: str) -> str:
    """The id of a query with this text in this namespace, which is made of both."""
    identity = f"{namespace}\n{_plain(text)}".encode()
    return f"q-{hashlib.blake2b(identity, digest_size=6).hexdigest()}"


def _plain(text: str) -> str:
    return " ".join(nfc(text).split())
