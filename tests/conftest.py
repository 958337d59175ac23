"""Fixtures of the whole test suite."""

import atexit
import fcntl
import gc
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import structlog
from hypothesis import settings

from tests import scratch
from tests.missing import missing
from tests.planted.defects import defects

scratch.choose()

# Nothing that is collected is garbage. A search for it would take a fifth of collecting tests, a tenth of running them.
gc.disable()

# A machine that others use, too, is slow at any moment: no example is judged by its time.
settings.register_profile("rankstream", deadline=None, max_examples=50)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("nightly", deadline=None, max_examples=1000)
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
    from tests.servers import shared


CONTRACT: Final = ("tests/operators/", "tests/flows/assembly/", "tests/schemas/")
"""The promises of the Kafka clients are tested here, with each of them. Other tests are of flows and commands."""

CASCADE: Final = "tests/integration/test_cascade_"


MACHINE: Final = (
    *("tests/bench/test_caching.py", "tests/bench/test_calls.py", "tests/bench/test_flow.py"),
    *("tests/bench/test_real_server.py", "tests/bench/test_saturation.py", "tests/bench/test_scaling.py"),
    "tests/bench/test_system.py",
    "tests/faults/test_faults.py",
)
"""The files with tests that load the machine, one at a time: workers that each had one of them would wait."""

TOOLS: Final = (
    *("tests/bench/test_caching.py", "tests/bench/test_circle.py", "tests/bench/test_flow.py"),
    *("tests/bench/test_models.py", "tests/bench/test_quality.py", "tests/bench/test_real_server.py"),
    *("tests/bench/test_rerank_faults.py",),
    *("tests/bench/test_saturation.py", "tests/bench/test_stubs.py"),
    *("tests/faults/test_law.py", "tests/faults/test_reader.py", "tests/kafka/", "tests/test_otlp.py"),
    *("tests/test_proxy.py", "tests/test_scratch.py"),
)
"""The files that try the tools of benchmarks and tests, and none of the product's promises."""


SMOKE: Final = (
    *("tests/bench/test_calls.py", "tests/docs/test_tutorial.py", "tests/flows/cli/test_rules.py"),
    *("tests/integration/test_commands.py", "tests/integration/test_delivery.py", "tests/integration/test_exports.py"),
    *("tests/integration/test_facets.py", "tests/integration/test_isolation.py"),
    *("tests/integration/test_ordinary_questions.py", "tests/integration/test_recipes.py"),
    *("tests/operators/clients/local/", "tests/stand_in/test_differential.py"),
)
"""One way through each part from outside: `make test` has these, although no planted defect names them."""

NEAR: Final = tuple({test for defect in defects().values() for test in defect.near})
"""The files and tests by which planted defects are noticed."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file is one worker's. The files of the cascade, which share three deployments, are one worker's together.

    So are those of MACHINE.
    """
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(MACHINE):
                return "machine"
            return CASCADE if nodeid.startswith(CASCADE) else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests before `-m` selects, and begin with those that take long.

    `broker` is a test with a real broker; its waiting for the machine is not timed. `nightly` is a flow's promise with
    the Kafka client that is not the default, but for those that are marked `both_clients`; so are the TOOLS. `broad` is
    a test that takes long, and that no planted defect needs.
    """
    for item in items:
        callspec = getattr(item, "callspec", None)
        other = callspec is not None and "kafka-python" in map(str, callspec.params.values())
        contract = item.nodeid.startswith(CONTRACT) or item.get_closest_marker("both_clients")
        if (other and not contract) or item.nodeid.startswith(TOOLS):
            item.add_marker(pytest.mark.nightly)
        fixtures = getattr(item, "fixturenames", ())
        if "broker_tools" in fixtures:
            item.add_marker(pytest.mark.broker)
        long = any(item.get_closest_marker(each) for each in ("broker", "slow", "weights"))
        if long and not item.nodeid.startswith(SMOKE + NEAR):
            item.add_marker(pytest.mark.broad)
        if "machine" in fixtures:
            if not item.nodeid.startswith(MACHINE):
                raise pytest.UsageError(f"{item.nodeid} loads the machine: add its file to MACHINE")
            item.add_marker(pytest.mark.timeout(func_only=True))
    # Files go to the workers in this order: a long one that came last would be waited for.
    items.sort(key=_turn)


def pytest_collection_finish() -> None:
    """Search for garbage in what tests make, and not in the tests."""
    gc.freeze()
    # A module that is taken down frozen would complain of the servers that run until the run has ended.
    atexit.register(gc.unfreeze)
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line for each reason for which tests were skipped."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", ()))
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"{number} tests: {reason}")


def _turn(item: pytest.Item) -> int:
    if "machine" in getattr(item, "fixturenames", ()):
        return 0
    return 1 if item.get_closest_marker("broker") else 2 if item.get_closest_marker("slow") else 3


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Tests that are coroutines run on asyncio, as the product does."""
    return "asyncio"


@pytest.fixture(scope="session")
def broker_tools() -> None:
    """The needs of a real broker; its tests skip where they are missing, and fail on CI (environment CI)."""
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
