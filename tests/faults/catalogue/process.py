"""Faults of processes: they are killed, drained, frozen, joined and left."""

import signal
import time
from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial
from tests.integration.deployment import wait_until

KILLS = 20

KILLING_S: Final = 60.0
SATURATING: Final = 400
"""Queries a second: more than can be answered meanwhile."""


@scenario("process")
def kill_9(trial: Trial) -> None:
    """Killed 20 times, at random moments of its answering and of its start, it loses and doubles nothing."""
    alone = trial.fleet["a"]
    for turn in range(KILLS):
        if turn % 2:
            trial.await_answer()
        time.sleep(trial.rng.uniform(0, 1.5))
        alone.kill()
        alone.start(wait=False)
    alone.wait_ready()


@scenario("process", replicas=4, rate=None, broker="own")
def kill_9_a_second(trial: Trial, seconds: float = KILLING_S) -> None:
    """At saturation one of four is killed every second, for a minute: nothing is lost or doubled."""
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        trial.load.ask(SATURATING)
        victim = trial.fleet[trial.rng.choice("abcd")]
        victim.kill()
        victim.start(wait=False)
        time.sleep(1)
    trial.fleet.wait_ready()
    trial.await_all()


@scenario("process")
def sigterm(trial: Trial) -> None:
    """Each of three drains exits 0, and the successor goes on where it ended."""
    alone = trial.fleet["a"]
    for _ in range(3):
        trial.await_answer()
        time.sleep(trial.rng.uniform(0, 1))
        assert alone.stop() == 0
        alone.start()


@scenario("process", settings={"qdrant": {"timeout": 20.0}})
def second_signal(trial: Trial) -> None:
    """A second signal while draining ends the process at once with 130, and what it left is answered."""
    alone = trial.fleet["a"]
    qdrant = trial.backends["qdrant"]
    qdrant.switch("hang")
    before = qdrant.requests
    wait_until(lambda: qdrant.requests > before)
    alone.wanted = False
    alone.signal(signal.SIGTERM)
    # Another one: two of a kind may come as one.
    alone.signal(signal.SIGINT)
    assert alone.running.process.wait(10) == 130
    trial.backends["qdrant"].switch("pass")
    alone.start()
    trial.await_answer()


@scenario("process", replicas=2)
def zombie(trial: Trial) -> None:
    """Frozen beyond the session time-out, its partitions are taken over; when it goes on, its answers are fenced."""
    frozen = trial.fleet["a"]
    for _ in range(2):
        trial.await_answer()
        frozen.signal(signal.SIGSTOP)
        time.sleep(10)
        frozen.signal(signal.SIGCONT)
        time.sleep(4)


@scenario("process")
def joining_and_leaving(trial: Trial) -> None:
    """One process becomes four and one again, some drained, some killed."""
    for name in "bcd":
        trial.fleet[name].start()
        time.sleep(1)
    assert trial.fleet["b"].stop() == 0
    trial.fleet["c"].kill()
    trial.await_answer()
    time.sleep(1)
    assert trial.fleet["a"].stop() == 0
    trial.await_answer()


@scenario("process", replicas=3)
def rolling_restart(trial: Trial) -> None:
    """Three replicas are drained and started one after another."""
    for name in "abc":
        assert trial.fleet[name].stop() == 0
        trial.fleet[name].start()


@scenario("process", replicas=3)
def all_killed(trial: Trial) -> None:
    """All three are killed at the same moment and started again."""
    for name in "abc":
        trial.fleet[name].kill()
    for name in "abc":
        trial.fleet[name].start(wait=False)
    trial.fleet.wait_ready()
    trial.await_answer()
