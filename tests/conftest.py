"""Fixtures of the whole test suite."""

import fcntl
import uuid
import warnings
from collections.abc import Callable, Iterator

import pytest
import structlog
from hypothesis import settings

from tests.missing import missing

# A machine that others use, too, is slow at any moment: no example is judged by its time.
settings.register_profile("rankstream", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("rankstream")

# Through the standard library as in the product: a test sees the project's log records beside those of its clients.
structlog.configure(
    processors=[structlog.processors.KeyValueRenderer(key_order=["event"])],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
)

with warnings.catch_warnings():
    # At its first import kafka-python reads its schemas in a way that the standard library deprecates.
    warnings.filterwarnings("ignore", r"(read|open)_text is deprecated", DeprecationWarning)
    from bench.kafka.broker import Broker, missing_tools
    from tests.shared import shared


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `broker` every test with a real broker, before `-m` selects; waiting for the machine is not timed."""
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        if "broker_tools" in fixtures:
            item.add_marker(pytest.mark.broker)
        if "machine" in fixtures:
            item.add_marker(pytest.mark.timeout(func_only=True))


@pytest.fixture(scope="session")
def broker_tools() -> None:
    """What a real broker needs; its tests skip where it is missing, and fail on CI (environment CI)."""
    if lacking := missing_tools():
        missing(f"a real broker needs {' and '.join(lacking)}")


@pytest.fixture(scope="session")
def broker(broker_tools: None, tmp_path_factory: pytest.TempPathFactory) -> Broker:
    """One real Kafka broker for the whole run. A test that stops or breaks its broker has its own."""
    return shared(tmp_path_factory, "plain")


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The machine as a whole: of the tests that load it, in whatever process of the run, one at a time."""
    with (tmp_path_factory.getbasetemp().parent / "machine.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture
def topic_names() -> Callable[[str], str]:
    """Names of topics and groups that no other test has: `topic_names("queries")`, the same within one test."""
    unique = uuid.uuid4().hex[:8]
    return lambda word: f"{word}-{unique}"
