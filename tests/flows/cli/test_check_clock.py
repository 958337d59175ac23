"""`rankstream check --part clock`: whether this machine's clock and those of the servers agree."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.stubs import stub_backends
from tests.flows.cli.running import Command
from tests.operators.clients.http.resilience import unused_port
from tests.qdrant_server import Behaviour, serve

HOUR = 3600.0


@pytest.fixture
def behaviour() -> Behaviour:
    """The behaviour of the server of `command`."""
    return Behaviour()


@pytest.fixture
def command(behaviour: Behaviour, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """The command line, configured for a Qdrant server."""
    with serve(tmp_path / "engine", behaviour) as url:
        yield Command(tmp_path, monkeypatch, {"qdrant": {"url": url}})


def findings(command: Command) -> dict[str, dict[str, Any]]:
    """By subject, what is found; a clock is never an error."""
    done = command("check", "--part", "clock", "--json")
    assert done.exit_code == 0, done.output
    return {row["subject"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_clocks_that_agree_are_ok(command: Command) -> None:
    """One line for each server that is asked over HTTP, and none for what runs in this process."""
    with stub_backends() as stubs:
        command.settings |= {
            "embedder": {"kind": "openai", "url": stubs.embed},
            "rerank": {"kind": "cohere", "url": stubs.rerank},
        }
        found = findings(command)
    assert [(each["subject"], each["level"]) for each in found.values()] == [
        ("clock qdrant", "ok"),
        ("clock embedder", "ok"),
        ("clock reranker", "ok"),
    ]
    assert all("agrees" in each["what"] for each in found.values())


@pytest.mark.parametrize(("ahead", "words"), [(HOUR, "behind"), (-HOUR, "ahead of")])
def test_a_clock_that_differs_is_a_warning(command: Command, behaviour: Behaviour, ahead: float, words: str) -> None:
    """It says by how much, which of the two is ahead, what suffers from it, and what to do."""
    behaviour.ahead = ahead
    [found] = findings(command).values()
    assert found["level"] == "warning"
    about = int(found["what"].partition("about ")[2].split()[0])
    assert about == pytest.approx(HOUR, abs=60)
    assert f" s {words} it" in found["what"]
    assert "deadlines" in found["what"]
    assert "NTP" in found["remedy"]


def test_a_clock_that_cannot_be_known_is_said(command: Command, tmp_path: Path) -> None:
    """Of a server that is not there; and where there is no server at all."""
    command.settings["qdrant"] = {"url": f"http://127.0.0.1:{unused_port()}"}
    [gone] = findings(command).values()
    assert (gone["level"], gone["subject"]) == ("ok", "clock qdrant")
    assert gone["what"] == "not compared: no connection"
    command.settings["qdrant"] = {"path": str(tmp_path / "index")}
    assert findings(command)["clock"]["what"] == "not compared: no backend is asked over HTTP"
