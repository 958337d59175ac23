"""The health port over HTTP: what a probe sees while checks hold, and when they don't."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from flows.process.health import Health, announce
from schemas.errors import ConfigError
from schemas.settings.root import TelemetrySettings

WELL = {"worker": True, "group": True, "qdrant": True}


@pytest.fixture(scope="module")
def checks() -> dict[str, bool]:
    """The checks' answers on the module's port."""
    return dict(WELL)


@pytest.fixture
def state(checks: dict[str, bool]) -> Iterator[dict[str, bool]]:
    """The checks' states, for a test to change; everything holds again after it."""
    yield checks
    checks.update(WELL)


@pytest.fixture(scope="module")
def port(checks: dict[str, bool]) -> Iterator[int]:
    """A health port on loopback, live by the worker, ready by all."""
    live = {"worker": lambda: checks["worker"]}
    health = Health("127.0.0.1", 0, CollectorRegistry())
    health.begin(live, {"group": lambda: checks["group"], "qdrant": lambda: checks["qdrant"]})
    yield health.port
    health.close()


def get(port: int, path: str) -> httpx.Response:
    """A probe."""
    return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=5)


def test_all_is_well(port: int) -> None:
    """While every check holds both paths answer 200 and name the checks as JSON."""
    live, ready = get(port, "/livez"), get(port, "/readyz")
    assert (live.status_code, live.json()) == (200, {"ok": True, "checks": {"worker": True}})
    assert (ready.status_code, ready.json()) == (
        200,
        {"ok": True, "checks": {"worker": True, "group": True, "qdrant": True}},
    )
    assert ready.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("broken", "live", "ready"),
    [(["group"], 200, 503), (["qdrant"], 200, 503), (["worker"], 503, 503), (["worker", "group"], 503, 503)],
)
def test_a_check_that_does_not_hold_is_named(
    port: int, state: dict[str, bool], broken: list[str], live: int, ready: int
) -> None:
    """A replica that isn't ready is still alive; one whose worker stands still is neither; it is 200 again after."""
    state.update(dict.fromkeys(broken, False))
    assert (get(port, "/livez").status_code, get(port, "/readyz").status_code) == (live, ready)
    checks = get(port, "/readyz").json()["checks"]
    assert [name for name, holds in checks.items() if not holds] == broken
    state.update(WELL)
    assert get(port, "/readyz").status_code == 200


@pytest.mark.parametrize("path", ["/", "/metrics/", "/livez/", "/?/readyz", "/readyz%3Fverbose"])
def test_other_paths_are_not_found(port: int, path: str) -> None:
    """Nothing else is served."""
    assert get(port, path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/livez?", "/readyz?verbose", "/readyz?exclude=qdrant&verbose", "/metrics?name[]=x", "/metrics?a?b"]
)
def test_a_query_has_no_effect(port: int, path: str) -> None:
    """Probes and scrapes may have parameters."""
    plain = get(port, path.partition("?")[0])
    assert (get(port, path).status_code, get(port, path).content) == (200, plain.content)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/readyz?verbose", "/metrics", "/nothing"])
@pytest.mark.parametrize("broken", [False, True])
def test_head_is_get_without_a_body(port: int, state: dict[str, bool], path: str, broken: bool) -> None:
    """With the same status and headers."""
    state["worker"] = not broken
    whole, head = get(port, path), httpx.head(f"http://127.0.0.1:{port}{path}", timeout=5)
    for each in (whole, head):
        each.headers.pop("date")
    assert (head.status_code, head.headers) == (whole.status_code, whole.headers)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(f"HEAD {path} HTTP/1.0\r\n\r\n".encode())
        received = b"".join(iter(lambda: connection.recv(4096), b""))
    assert received.partition(b"\r\n\r\n")[2] == b""


OPEN_METRICS = "application/openmetrics-text"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (f"{OPEN_METRICS};version=1.0.0,text/plain;q=0.5", OPEN_METRICS),
        (f"{OPEN_METRICS};version=1.0.0;q=0.001", OPEN_METRICS),
        (f"{OPEN_METRICS};version=abc", "text/plain"),
        (f'{OPEN_METRICS};version="1.0.0"', "text/plain"),
        (f"{OPEN_METRICS};version=1.x,text/plain", "text/plain"),
        ("text/plain;version=one", "text/plain"),
        (f"{OPEN_METRICS};version=99.1", OPEN_METRICS),
        (f"{OPEN_METRICS};version=1.0.0;q=high", OPEN_METRICS),
    ],
)
def test_every_scrape_has_an_answer(port: int, accept: str, kind: str) -> None:
    """In OpenMetrics for who accepts it in a form that can be read, else as text."""
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"accept": accept}, timeout=5)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, kind)


def test_types_may_be_in_several_headers(port: int) -> None:
    """As HTTP has it."""
    headers = [("accept", "text/html"), ("accept", f"{OPEN_METRICS};version=1.0.0")]
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers=headers, timeout=5)
    assert answer.headers["content-type"].startswith(OPEN_METRICS)


def test_a_taken_port_is_an_error(port: int) -> None:
    """Two replicas on one port: the second is told at start which setting to change."""
    with pytest.raises(ConfigError, match=rf"telemetry\.port: .*:{port} .*in use.*RANKSTREAM_TELEMETRY__PORT"):
        Health("127.0.0.1", port, CollectorRegistry())


def test_a_port_that_is_not_set_is_the_next_free_one(port: int) -> None:
    """A second process on one machine takes another port of those it may try."""
    with closing(Health("127.0.0.1", port, CollectorRegistry(), tries=50)) as health:
        assert port < health.port < port + 50
        assert get(health.port, "/livez").status_code == 200


@pytest.mark.parametrize(
    ("telemetry", "search", "indexing", "finds"), [({}, 8080, 8081, True), ({"port": 8080}, 8080, 8080, False)]
)
def test_a_port_that_is_set_is_not_replaced(telemetry: dict[str, int], search: int, indexing: int, finds: bool) -> None:
    """Probes in Kubernetes ask the port of the configuration."""
    settings = TelemetrySettings.model_validate(telemetry)
    assert (settings.port, settings.indexing_port, settings.finds_port) == (search, indexing, finds)


def test_ready_is_announced_once_all_checks_hold() -> None:
    """The line comes when the last check holds, and once."""
    answers = iter([False, False, True])
    asked = threading.Event()

    def last() -> bool:
        held = next(answers)
        if held:
            asked.set()
        return held

    with capture_logs() as lines:
        announce({"group": lambda: True, "qdrant": last})
        assert asked.wait(30)
        for thread in threading.enumerate():
            if thread.name == "announcement":
                thread.join(30)
    assert [line["event"] for line in lines] == ["ready"]


def test_what_has_not_begun_is_alive_and_not_ready() -> None:
    """A probe has an answer while a replica starts."""
    with closing(Health("127.0.0.1", 0, CollectorRegistry())) as health:
        assert (get(health.port, "/livez").status_code, get(health.port, "/readyz").status_code) == (200, 503)


@pytest.mark.slow
def test_a_closed_port_is_free_again() -> None:
    """After `close` nothing answers, and the port can be taken."""
    health = Health("127.0.0.1", 0, CollectorRegistry())
    health.close()
    with pytest.raises(httpx.ConnectError):
        get(health.port, "/livez")
    Health("127.0.0.1", health.port, CollectorRegistry()).close()


@pytest.mark.slow
def test_a_check_that_fails_does_not_hold() -> None:
    """A check that raises is one that doesn't hold: the probe has its answer all the same."""

    def broken() -> bool:
        raise RuntimeError("closed")

    health = Health("127.0.0.1", 0, CollectorRegistry())
    health.begin({"worker": broken}, {})
    answer = get(health.port, "/livez")
    health.close()
    assert answer.status_code == 503
    assert answer.json() == {"ok": False, "checks": {"worker": False}}
