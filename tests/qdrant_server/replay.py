"""A real server is asked each request that tests made to the stand-in; an answer that differs is a failure.

`python -m tests.qdrant_server.replay DIRECTORY` starts the server that QDRANT_BINARY names and asks it the exchanges of
each file, on a server that holds nothing. Not compared are: what a test made the stand-in do, reads beside a write, and
all that follows a write of which nobody knows how far it came.
"""

import argparse
import base64
import bisect
import hashlib
import hmac
import re
import tempfile
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from bench.qdrant_server import VARIABLE, empty, named, started
from tests import scratch
from tests.qdrant_server.agreement import MALFORMED, NARROWER, PARTIAL, WIDER, Difference, differences
from tests.qdrant_server.exchanges import BEFORE, Exchange, Reader
from tests.qdrant_server.requests import DEFAULT_LIMIT

FULL: Final = "a key that may do everything, for one machine"
READ_ONLY: Final = "a key that may read everything, for one machine"
SETTINGS: Final = {
    "QDRANT__SERVICE__API_KEY": FULL,
    "QDRANT__SERVICE__READ_ONLY_API_KEY": READ_ONLY,
    "QDRANT__SERVICE__JWT_RBAC": "true",
}

LEFT_OUT: Final = {"/metrics": "the server measures itself", "/": "the commit of its build"}
"""Paths whose answers the server alone can give, and why."""

POINT: Final = re.compile(r'"id":')

READS: Final = ("/points", "/points/scroll", "/points/count", "/points/query", "/points/query/batch", "/facet")
SHOWN: Final = 400
"""Characters of a request or an answer in a failure."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One exchange in which the two disagree."""

    file: str
    number: int
    exchange: Exchange
    status: int | None
    answer: Any
    difference: Difference

    def __str__(self) -> str:
        asked, (place, one, other) = self.exchange, self.difference
        return "\n".join(
            (
                f"{self.file}:{self.number}: {asked.method} {asked.path} {_short(asked.body)}",
                f"  at {place or 'the top'}: stand-in {_short(one)}, server {_short(other)}",
                f"  stand-in {asked.status} {_short(asked.answer)}",
                f"  server   {self.status} {_short(self.answer)}",
            )
        )


class Replay:
    """One server, for one file after the other."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self.failures: list[Failure] = []
        self.compared = 0
        self.left_out: Counter[str] = Counter()

    def file(self, name: str, exchanges: Sequence[Exchange]) -> None:
        """Ask a file's exchanges of the server, which holds nothing before and after."""
        raced = _beside_writes(exchanges)
        try:
            for number, exchange in enumerate(exchanges, 1):
                if reason := _unasked(exchange, raced):
                    self.left_out[reason] += 1
                    unknown = reason != BEFORE and not _reads(exchange)
                else:
                    unknown = not self._agrees(name, number, exchange)
                if unknown and number < len(exchanges):
                    self.left_out["behind a write whose effect the two do not share"] += len(exchanges) - number
                    return
        finally:
            empty(self._client, _key("m"))

    def _agrees(self, name: str, number: int, exchange: Exchange) -> bool:
        """Ask and compare; False if the two no longer hold the same."""
        try:
            answered = self._ask(exchange)
        except httpx.TransportError as error:
            status, answer = None, type(error).__name__
        else:
            typed = answered.headers.get("content-type") == "application/json"
            status, answer = answered.status_code, orjson.loads(answered.content) if typed else answered.text
        same = status == exchange.status
        found = (
            list(differences(exchange.answer, answer, _limits(exchange.body)))
            if same
            else [("status", exchange.status, status)]
        )
        if found and (reason := _excused(exchange, status, answer)):
            self.left_out[reason] += 1
        else:
            self.compared += 1
            self.failures += [Failure(name, number, exchange, status, answer, each) for each in found[:1]]
        if _reads(exchange) or exchange.status == status == 200:
            return True
        whole = len(POINT.findall(exchange.body)) == 1 or not _words(exchange.answer).startswith(PARTIAL)
        return whole and 200 not in {exchange.status, status}

    def _ask(self, exchange: Exchange) -> httpx.Response:
        path = exchange.path
        if not _reads(exchange) and "wait=" not in path:
            # The stand-in is never behind.
            path += "&wait=true" if "?" in path else "?wait=true"
        headers = {"content-type": "application/json", **_key(exchange.access)}
        return self._client.request(exchange.method, path, content=exchange.body.encode(), headers=headers)


@contextmanager
def replaying(binary: str) -> Iterator[httpx.Client]:
    """A server of its own with the keys of replays."""
    with (
        tempfile.TemporaryDirectory() as directory,
        started(binary, Path(directory), SETTINGS) as url,
        httpx.Client(base_url=url, timeout=120) as client,
    ):
        yield client


def _reads(exchange: Exchange) -> bool:
    return exchange.method == "GET" or (exchange.method == "POST" and exchange.path.partition("?")[0].endswith(READS))


def _excused(exchange: Exchange, status: int | None, answer: Any) -> str | None:
    """The reason for which the two may answer differently, if there is one."""
    if status is None:
        return None
    refused = exchange.status != 200 and _words(exchange.answer)
    if refused:
        if status in {400, 422} and refused.startswith(MALFORMED) and _words(answer).startswith(MALFORMED):
            return "a malformed request, refused by both"
        return next((reason for words, reason in NARROWER.items() if words in refused), None)
    if status == 400:
        return next((reason for pattern, reason in WIDER.items() if re.search(pattern, exchange.body)), None)
    return None


def _limits(body: str) -> dict[str, int]:
    """The most points of each list of an answer, by its place."""
    try:
        asked = orjson.loads(body)
        if "searches" in asked:
            return {f".result[{number}].points": _limit(each) for number, each in enumerate(asked["searches"])}
        return {".result.points": _limit(asked)}
    except (ValueError, TypeError, AttributeError):
        return {}


def _limit(asked: Mapping[str, Any]) -> int:
    return int(asked.get("limit") or DEFAULT_LIMIT)


def _words(answer: Any) -> str:
    return str(answer["status"]["error"]) if isinstance(answer, dict) and "error" in answer.get("status", "") else ""


def _unasked(exchange: Exchange, raced: Container[int]) -> str | None:
    """The reason for which the server isn't asked, if there is one."""
    if exchange.reason is not None:
        return exchange.reason
    if exchange.status in {None, 408}:
        return "given up"
    return LEFT_OUT.get(exchange.path) or ("a read beside a write" if exchange.began in raced else None)


def _beside_writes(exchanges: Sequence[Exchange]) -> set[int]:
    """The beginnings of reads that ran while a write ran: either order would be right."""
    writes = [each for each in exchanges if not _reads(each)]
    begun, ended = sorted(each.began for each in writes), sorted(each.ended for each in writes)
    return {
        each.began
        for each in exchanges
        if _reads(each) and bisect.bisect(begun, each.ended) > bisect.bisect(ended, each.began)
    }


def _key(access: Reader) -> dict[str, str]:
    match access:
        case None:
            return {}
        case "m":
            return {"api-key": FULL}
        case "r":
            return {"api-key": READ_ONLY}
        case str():
            return {"api-key": access}
    return {"api-key": _token([{"collection": name, "access": mode} for name, mode in access.items()])}


def _token(access: object) -> str:
    """A JSON web token with these rights."""
    said = b".".join(map(_coded, (orjson.dumps({"alg": "HS256", "typ": "JWT"}), orjson.dumps({"access": access}))))
    return b".".join((said, _coded(hmac.digest(FULL.encode(), said, hashlib.sha256)))).decode()


def _coded(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def main() -> int:
    """Replay a directory; 1 if an answer differs, or there is nothing to compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args().directory
    scratch.choose()
    binary = named()
    if binary is None:
        print(f"Skipped: {VARIABLE} names no Qdrant server to hold the stand-in's answers against.")
        return 0
    with replaying(binary) as client:
        replay = Replay(client)
        for file in sorted(directory.glob("*.jsonl")):
            with file.open("rb") as lines:
                replay.file(file.name, list(map(Exchange.of, lines)))
    for failure in replay.failures:
        print(failure)
    for reason, number in replay.left_out.most_common():
        print(f"{number} exchanges left out: {reason}")
    print(f"{replay.compared} exchanges compared, {len(replay.failures)} differ")
    return 1 if replay.failures or not replay.compared else 0


if __name__ == "__main__":
    raise SystemExit(main())
