"""The start of a process: what a broker cannot do yet is waited for, and what it never will is said at once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from flows.assembly.clients import InProcess
from flows.process import serve
from flows.process.replica import Replica
from schemas.errors import DeliveryError, FatalDelivery, RetriableDelivery
from schemas.result import VERSION
from schemas.settings import Settings, load
from tests.flows.cli.test_commands import rankstream

SETTINGS = load(None, {"qdrant": {"url": "http://q"}})
LOADING = "init_transactions: COORDINATOR_LOAD_IN_PROGRESS"


@pytest.fixture(autouse=True)
def _own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logger that an earlier test has used keeps its processors."""
    monkeypatch.setattr(serve, "log", structlog.stdlib.get_logger(serve.__name__))


def failing(*errors: DeliveryError) -> Callable[[Settings, InProcess], Replica]:
    """Builds a replica after these errors."""
    left = list(errors)

    def build(settings: Settings, in_process: InProcess) -> Replica:
        if left:
            raise left.pop(0)
        parts: Any = {"replication": in_process, "flow": None, "resources": settings}
        return Replica(**parts, pings={}, watchdog=60.0)

    return build


def started(**flows: Callable[[Settings, InProcess], Replica]) -> tuple[set[str] | None, list[dict[str, Any]]]:
    """The flows that have a replica, and what was logged meanwhile."""
    with capture_logs() as lines:
        replicas = serve._build(SETTINGS, InProcess(SETTINGS), flows)
    return None if replicas is None else {*replicas}, [dict(line) for line in lines]


def test_a_broker_that_loads_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each try is a line, and a flow that has started is not built a second time."""
    monkeypatch.setattr(serve, "_RETRY", 0.0)
    flows, lines = started(indexing=failing(), search=failing(*[RetriableDelivery(LOADING)] * 2))
    assert flows == {"indexing", "search"}
    assert [(each["event"], each["reason"]) for each in lines] == [("cannot start yet", LOADING)] * 2


def test_it_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor then starts the process again."""
    monkeypatch.setattr(serve, "_RETRY", 0.0)
    monkeypatch.setattr(serve, "_PATIENCE", 0.0)
    flows, lines = started(search=failing(*[RetriableDelivery(LOADING)] * 9))
    assert flows is None
    assert lines[-1]["event"] == "cannot start"


def test_what_no_time_mends_ends_the_start_at_once() -> None:
    """Such as a topic that does not exist."""
    flows, lines = started(search=failing(FatalDelivery("topics that don't exist: queries")))
    assert flows is None
    assert [each["event"] for each in lines] == ["cannot start"]


def test_the_first_line_of_a_process_names_its_version(tmp_path: Path) -> None:
    """Before anything can fail."""
    nowhere = {"qdrant": {"url": "http://127.0.0.1:9"}, "kafka": {"bootstrap_servers": "127.0.0.1:9"}}
    config = tmp_path / "rankstream.yaml"
    config.write_text(json.dumps({**nowhere, "telemetry": {"log_format": "json", "port": 0}}))
    done = rankstream("run", "--config", str(config))
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, lines[0]["event"], lines[0]["version"]) == (1, "starting", VERSION)
