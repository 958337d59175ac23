"""A rolling update under load, and back: replicas of both versions share a group; each query is answered once."""

import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import pytest
from confluent_kafka.admin import AdminClient

from bench.kafka.broker import Broker
from bench.stubs import stub_backends
from tests.faults.law import account
from tests.faults.run import CLIENTS
from tests.faults.trial import RECOVERY, Host, Trial, trial
from tests.integration.deployment import PARTITIONS, wait_until
from tests.upgrade.before import VERSION, environment, unpacked

pytestmark = [pytest.mark.slow, pytest.mark.operate]

RATE: Final = 50.0
REQUEST: Final = 30.0
SECOND_ANSWERS: Final = 1.5
"""Seconds to wait for them."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment in which a process runs the version before."""
    return environment(unpacked(tmp_path_factory.mktemp("before")))


@pytest.fixture(params=CLIENTS)
def fleet_trial(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Trial]:
    """Topics, stub backends, a load that is off, and a reader, for flows with one of the Kafka clients."""
    with (
        stub_backends(qdrant_latency=0.01, rerank_latency=0.03, embed_latency=0.005) as stubs,
        trial(request.param, Host(broker), stubs, {}, seed=0, seconds=None) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    """The client that can ask about the group."""
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def shares(admin: AdminClient, group: str) -> list[int]:
    """The number of partitions that each member of the group has."""
    described = admin.describe_consumer_groups([group], request_timeout=REQUEST)[group]
    return sorted(len(member.assignment.topic_partitions) for member in described.result().members)


def replace(
    run: Trial, admin: AdminClient, name: str, version: Mapping[str, str], how: Literal["drained", "killed"]
) -> None:
    """End that replica, start one of a version in its place, and let the two of them answer queries."""
    replica = run.fleet[name]
    if how == "drained":
        assert replica.stop() == 0
    else:
        replica.kill()
    run.deployment.environment = dict(version)
    replica.start()
    group = run.deployment.settings["kafka"]["group_id"]
    wait_until(lambda: shares(admin, group) == [2, 2])
    since = time.time()
    wait_until(lambda: {answer.place.partition for answer in run.answers(since)} == set(range(PARTITIONS)), RECOVERY)


def test_the_version_before_is_what_runs(before: Mapping[str, str]) -> None:
    """Its processes take every module from its wheel."""
    program = (
        "import importlib.metadata as m, flows, operators, schemas; print(m.version('rankstream'), flows, operators)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=before, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{VERSION} ")
    assert done.stdout.count(before["PYTHONPATH"]) == 2


def test_replicas_are_replaced_one_after_the_other(
    fleet_trial: Trial, admin: AdminClient, before: Mapping[str, str]
) -> None:
    """Under load two replicas of the version before become two of this one, and then of the version before again, one
    drained and one killed each time: nothing is lost, and nothing is answered twice.
    """
    run = fleet_trial
    now: Mapping[str, str] = {}
    run.deployment.environment = dict(before)
    for name in "ab":
        run.fleet[name].start(wait=False)
    run.fleet.wait_ready()
    run.load.start(RATE)
    run.await_answer()
    replace(run, admin, "a", now, "drained")
    replace(run, admin, "b", now, "killed")
    replace(run, admin, "a", before, "drained")
    replace(run, admin, "b", before, "killed")
    run.load.stop()
    run.await_all()
    assert [run.fleet[name].stop() for name in "ab"] == [0, 0]
    time.sleep(SECOND_ANSWERS)
    found = account(run.asked(), list(run.reader.output_records))
    assert found.breaches() == []
    assert run.fleet.restarts == 0
    assert found.kinds["ok"] > 0
