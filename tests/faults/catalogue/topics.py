"""Faults of the topics: one is missing, or goes, or takes less, or gets more partitions."""

import time
from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial
from tests.integration.deployment import PARTITIONS, wait_until

GONE: Final = 8.0
BACKLOG: Final = 100
AT_RANDOM_S: Final = 60.0
PAUSE: Final = 60.0
_DEFAULT_SIZE: Final = 1_048_588
_SMALL: Final = 2000
"""Bytes that a result of ten hits doesn't fit into, compressed or not."""


def delete(trial: Trial, role: str) -> None:
    """Delete the topic of that role; returns once nobody knows it."""
    with trial.broker.admin() as admin:
        admin.delete_topics([trial.topic(role)])
        wait_until(lambda: trial.topic(role) not in admin.list_topics())
    trial.reader.forget(trial.topic(role))


def create(trial: Trial, role: str, partitions: int = PARTITIONS) -> None:
    """Make the topic of that role again, and read it from its beginning."""
    trial.deployment.create(role, partitions)
    trial.reader.follow(trial.topic(role))


def missing_at_start(trial: Trial, role: str) -> None:
    """Without the topic each start exits 1 and names it; once it is there all is answered."""
    delete(trial, role)
    alone = trial.fleet["a"].start(wait=False)
    wait_until(lambda: alone.restarts >= 2)
    refused = trial.deployment.flows[0]
    assert refused.process.poll() == 1, f"exit code {refused.process.poll()}"
    assert trial.topic(role) in refused.log.read_text(), "the log doesn't name the topic"
    create(trial, role)
    alone.wait_ready()
    trial.load.start()
    trial.await_answer()
    time.sleep(2)


@scenario("topics", replicas=0, rate=None)
def results_missing(trial: Trial) -> None:
    """Without the results topic a start exits 1 and names it; once it is there all is answered."""
    missing_at_start(trial, "results")


@scenario("topics", replicas=0, rate=None)
def dead_letters_missing(trial: Trial) -> None:
    """Without the dead-letter topic a start exits 1 and names it; once it is there all is answered."""
    missing_at_start(trial, "dead_letters")


def deleted_in_flight(trial: Trial, role: str, *, gone: float = GONE, partitions: int = PARTITIONS) -> None:
    """Delete the topic while queries are in flight and none of its records is unread; make it again after a while."""
    trial.load.stop()
    trial.await_all()
    # Held up here, they are answered only after the topic is gone.
    trial.backends["qdrant"].switch("hang")
    trial.load.start()
    time.sleep(0.3)
    delete(trial, role)
    trial.backends["qdrant"].switch("pass")
    time.sleep(gone)
    create(trial, role, partitions)
    trial.await_answer()
    time.sleep(2)


@scenario("topics")
def results_deleted(trial: Trial) -> None:
    """The results topic is deleted with queries in flight: none is skipped, all are answered to the new one."""
    deleted_in_flight(trial, "results")


@scenario("topics")
def dead_letters_deleted(trial: Trial) -> None:
    """The dead-letter topic is deleted with poison in flight: none is skipped, all end in the new one."""
    deleted_in_flight(trial, "dead_letters")


@scenario("topics")
def results_made_again(trial: Trial) -> None:
    """The results topic is made again at once with fewer partitions: no producer waits for those that are gone."""
    deleted_in_flight(trial, "results", gone=0, partitions=1)


@scenario("topics")
def results_grown(trial: Trial) -> None:
    """The results topic is made again at once with more partitions: all are answered to the new one."""
    deleted_in_flight(trial, "results", gone=0, partitions=3 * PARTITIONS)


@scenario("topics")
def dead_letters_made_again(trial: Trial) -> None:
    """The dead-letter topic is made again at once with fewer partitions: poison ends in the new one."""
    deleted_in_flight(trial, "dead_letters", gone=0, partitions=1)


@scenario("topics", replicas=2)
def topics_at_random(trial: Trial) -> None:
    """Topics are made again at random, at once or after a while, smaller or larger: no pause is over a minute."""
    ends = time.monotonic() + (trial.seconds or AT_RANDOM_S)
    longest, times = 0.0, 0
    while time.monotonic() < ends:
        gone = trial.rng.choice((0.0, 0.0, trial.rng.uniform(0, GONE)))
        partitions = trial.rng.choice((1, PARTITIONS - 1, PARTITIONS, 3 * PARTITIONS))
        began = time.monotonic()
        deleted_in_flight(trial, trial.rng.choice(("results", "dead_letters")), gone=gone, partitions=partitions)
        longest, times = max(longest, time.monotonic() - began - gone), times + 1
        assert longest < PAUSE, f"{longest:.0f} s until something was answered"
    trial.figures["made again"], trial.figures["longest pause, s"] = str(times), f"{longest:.1f}"


@scenario("topics", refused=frozenset({"too_large"}))
def results_take_less(trial: Trial) -> None:
    """Once the results topic takes less than an answer needs, each such query is refused, and nothing stops."""
    trial.alter("results", "max.message.bytes", _SMALL)
    wait_until(
        lambda: any(
            output_record.dead and output_record.value is None for output_record in list(trial.reader.output_records)
        )
    )
    time.sleep(3)
    trial.alter("results", "max.message.bytes", _DEFAULT_SIZE)
    time.sleep(1)
    trial.await_full_answer(time.time())


@scenario("topics")
def partitions_added(trial: Trial) -> None:
    """The queries topic gets twice the partitions in mid-run: those of the new ones are answered, too."""
    with trial.broker.admin() as admin:
        admin.create_partitions({trial.topic("queries"): 2 * PARTITIONS})
    time.sleep(5)
    assert any(place.partition >= PARTITIONS for place in trial.asked()), "nothing was asked in a new partition"
