"""Exchanges with a stand-in are kept, and asked again of a server: what differs is seen, and what may differ is not."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.qdrant_server import named
from operators.clients.qdrant_edge.shards import Engine
from tests.qdrant_server import Behaviour, Keys, serve
from tests.qdrant_server.agreement import differences
from tests.qdrant_server.exchanges import BEFORE, VARIABLE, Exchange, exchanges_of
from tests.qdrant_server.replay import FULL, READ_ONLY, Replay, main, replaying
from tests.qdrant_server.transport import ServerTransport
from tests.stand_in.asking import Server, in_process

CREATED = {"vectors": {"size": 2, "distance": "Dot"}}
POINTS = {"points": [{"id": number, "vector": [1.0, number], "payload": {"n": number}} for number in range(9)]}
SEARCH = {"query": [1.0, 1.0], "limit": 4, "with_payload": True}


@pytest.fixture(scope="module")
def keyed() -> Iterator[httpx.Client]:
    """The real server of a replay."""
    binary = named()
    assert binary is not None
    with replaying(binary) as client:
        yield client


@pytest.fixture(params=["stand-in", *(["server"] if named() is not None else [])])
def replay(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replay]:
    """A replay on a server, or on another stand-in."""
    if request.param == "server":
        yield Replay(request.getfixturevalue("keyed"))
        return
    with serve(tmp_path / "other", Behaviour(keys=Keys(FULL, READ_ONLY))) as url, httpx.Client(base_url=url) as client:
        yield Replay(client)


@contextmanager
def keeping(path: Path) -> Iterator[list[Exchange]]:
    """The exchanges of the one stand-in of this block, which are there when it ends."""
    exchanges: list[Exchange] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(path / "exchanges"))
        yield exchanges
    (file,) = (path / "exchanges").iterdir()
    exchanges += map(Exchange.of, file.read_bytes().splitlines())


@pytest.fixture
def exchanges(tmp_path: Path) -> list[Exchange]:
    """A few requests to a stand-in, each of another kind."""
    behaviour = Behaviour()
    with keeping(tmp_path) as exchanges, Engine(tmp_path / "engine") as engine:
        server = Server(in_process(ServerTransport(engine, behaviour)))
        server.done("PUT", "/collections/c", CREATED)
        server.done("PUT", "/collections/c/points", POINTS)
        server.done("POST", "/collections/c/points/query", SEARCH)
        server.refused("POST", "/collections/c/points/query", {"query": [1.0]})
        behaviour.timing_out = True
        server.answer("POST", "/collections/c/points/query", SEARCH)
        behaviour.timing_out = False
        behaviour.keys = Keys("sesame", "look")
        for key in ({}, {"api-key": "other"}, {"api-key": "look"}, {"authorization": "Bearer sesame"}):
            server.answer("DELETE", "/collections/c", headers=key)
    return exchanges


def test_each_exchange_is_kept(exchanges: list[Exchange]) -> None:
    """An engine has one file; a line has the request, the rights that it had, and the answer."""
    assert [each.status for each in exchanges] == [200, 200, 200, 400, 500, 401, 401, 403, 200]
    assert [each.access for each in exchanges] == [*["m"] * 5, None, "wrong", "r", "m"]
    assert [each.reason is not None for each in exchanges] == [False] * 4 + [True] + [False] * 4
    assert exchanges[2].answer["result"]["points"][0]["payload"] == {"n": 8}


def test_nothing_is_kept_unless_it_is_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable there is no file."""
    monkeypatch.delenv(VARIABLE, raising=False)
    with Engine(tmp_path / "engine") as engine:
        assert exchanges_of(engine) is None


def test_a_stand_in_agrees(exchanges: list[Exchange], replay: Replay) -> None:
    """All that a server can be asked is compared, and the server holds nothing afterwards."""
    for _ in range(2):
        replay.file("first", exchanges)
    assert list(map(str, replay.failures)) == []
    assert replay.compared == 2 * (len(exchanges) - 1)


def _search(exchanges: list[Exchange]) -> int:
    return next(index for index, each in enumerate(exchanges) if each.path.endswith("/query"))


@pytest.mark.parametrize("planted", ["a status", "a score", "a payload", "a point less"])
def test_a_difference_is_seen(exchanges: list[Exchange], replay: Replay, planted: str) -> None:
    """The failure says where: the file, the number, the request and both answers."""
    at = _search(exchanges)
    points: list[dict[str, Any]] = exchanges[at].answer["result"]["points"]
    match planted:
        case "a status":
            exchanges[at] = replace(exchanges[at], status=404)
        case "a score":
            points[0]["score"] += 0.001
        case "a payload":
            points[0]["payload"] = {"n": 77}
        case _:
            points.pop()
    replay.file("first", exchanges)
    (failure,) = replay.failures
    assert (failure.file, failure.number, failure.exchange) == ("first", at + 1, exchanges[at])
    assert str(failure).startswith(f"first:{at + 1}: POST /collections/c/points/query {{")


def test_what_nobody_knows_is_left_out(exchanges: list[Exchange], replay: Replay) -> None:
    """A read beside a write, all behind a write that was given up, and an engine that held collections before."""
    at = _search(exchanges)
    slow, beside = replace(exchanges[at - 1], ended=exchanges[at].ended), replace(exchanges[at], answer=None)
    given_up = replace(exchanges[at + 1], method="PUT", status=None)
    replay.file("first", [*exchanges[: at - 1], slow, beside, given_up, *exchanges[at + 2 :]])
    replay.file("second", [replace(each, reason=BEFORE) for each in exchanges])
    assert (replay.failures, replay.compared) == ([], 2)


def test_a_cancelled_request_is_kept(tmp_path: Path) -> None:
    """It has no status: nobody knows how far it came."""

    async def cancelled(engine: Engine) -> None:
        request = httpx.Request("POST", "http://qdrant/collections/c/points/query/batch", json={"searches": [SEARCH]})
        task = asyncio.create_task(ServerTransport(engine).handle_async_request(request))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with keeping(tmp_path) as exchanges, Engine(tmp_path / "engine") as engine:
        server = Server(in_process(ServerTransport(engine)))
        server.done("PUT", "/collections/c", CREATED)
        asyncio.run(cancelled(engine))
    assert exchanges[-1].status is None


def _points(*pairs: tuple[int, float]) -> dict[str, Any]:
    return {"result": {"points": [{"id": identity, "score": score} for identity, score in pairs]}}


def _collections(*names: str) -> dict[str, Any]:
    return {"result": {"collections": [{"name": name} for name in names]}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"time": 0.0, "result": True}, {"time": 0.1, "result": True}),
        (_points((1, 0.5), (2, 0.25)), _points((1, 0.500001), (2, 0.25))),
        (_points((1, 0.5), (2, 0.5), (3, 0.1)), _points((2, 0.5), (1, 0.5), (3, 0.1))),
        (_points((1, 0.5), (2, 0.1)), _points((1, 0.5), (3, 0.1))),
        ({"result": {"status": "green"}}, {"result": {"status": "yellow"}}),
        (_collections("a", "b"), _collections("b", "a")),
        ({"status": {"error": "no"}}, {"status": {"error": "no at line 1 column 7"}}),
    ],
)
def test_what_may_differ(one: Any, other: Any) -> None:
    """Times, last digits, the order of ties and those that a limit cuts, the optimizer's state."""
    assert list(differences(one, other, {".result.points": 2})) == []


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ({"result": {}}, {"result": {"a": None}}, ".result.a"),
        ({"payload": {"time": 1}}, {"payload": {"time": 2}}, ".payload.time"),
        (_points((1, 0.5), (2, 0.25)), _points((1, 0.5), (3, 0.25)), ".result.points[1].id"),
        ({"result": True}, {"result": 1}, ".result"),
        (_points((1, 0.5), (2, 0.25)), _points((3, 0.5), (2, 0.25)), ".result.points[0].id"),
        (_points((1, 0.5), (2, 0.25)), _points((2, 0.25), (1, 0.5)), ".result.points[0].id"),
        ({"status": {"error": "no"}}, {"status": {"error": "yes"}}, ".status.error"),
    ],
)
def test_what_may_not_differ(one: Any, other: Any, place: str) -> None:
    """Members, types, points, their order by score, and the words of refusals."""
    assert next(iter(differences(one, other)))[0] == place


def test_without_a_server_the_replay_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command says so, and ends well."""
    monkeypatch.delenv("QDRANT_BINARY", raising=False)
    monkeypatch.setattr(sys, "argv", ["replay", str(tmp_path)])
    assert main() == 0
    assert "QDRANT_BINARY" in capsys.readouterr().out
