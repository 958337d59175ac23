"""Faults of the broker and of the network before it."""

import signal
import time
from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial

AWAY: Final = 10.0
CRASHES: Final = 3


@scenario("broker", broker="own")
def broker_stopped(trial: Trial) -> None:
    """Stopped for ten seconds, the broker comes back and all goes on."""
    trial.broker.stop()
    time.sleep(AWAY)
    trial.broker.start()
    trial.await_answer()


@scenario("broker", broker="own")
def broker_killed(trial: Trial) -> None:
    """Killed and at once started again, the broker has lost nothing that anybody relied on."""
    trial.broker.kill()
    trial.broker.start()
    trial.await_answer()


@scenario("broker", broker="own")
def broker_killed_in_transactions(trial: Trial) -> None:
    """Killed three times while transactions follow one another, it leaves none half done."""
    for _ in range(CRASHES):
        trial.await_answer()
        # Within the interval between two transactions, at no two times the same moment of it.
        time.sleep(trial.rng.uniform(0.2, 0.4))
        trial.broker.kill()
        trial.broker.start()
    trial.await_answer()


@scenario("broker", broker="proxied")
def broker_slow(trial: Trial) -> None:
    """Each packet to and from the broker takes 50 ms, for ten seconds."""
    trial.network.switch("slow")
    time.sleep(AWAY)
    trial.network.switch("pass")
    time.sleep(2)


@scenario("broker", broker="intercepted")
def connections_reset(trial: Trial) -> None:
    """Three times all connections to the broker are reset and refused, for three seconds each."""
    for _ in range(3):
        trial.network.switch("refuse")
        time.sleep(3)
        trial.network.switch("pass")
        trial.await_answer()
        time.sleep(1)


@scenario("broker", broker="intercepted")
def connections_flapping(trial: Trial) -> None:
    """For ten seconds the connections to the broker hold for half a second each."""
    ends = time.monotonic() + AWAY
    while time.monotonic() < ends:
        trial.network.switch("refuse")
        time.sleep(0.1)
        trial.network.switch("pass")
        time.sleep(0.5)
    trial.await_answer()


@scenario("broker", broker="proxied", settings={"kafka": {"request_timeout": 8.0}})
def broker_half_open(trial: Trial) -> None:
    """The broker takes every byte and answers none for longer than a request may take."""
    trial.network.switch("hang")
    time.sleep(12)
    trial.network.switch("pass")
    trial.await_answer()


@scenario("broker", broker="proxied", settings={"kafka": {"transaction_timeout": 8.0}})
def transaction_timed_out(trial: Trial) -> None:
    """Frozen in a transaction for longer than one may take, the process comes back to one that was aborted."""
    # Over the slow network there is a transaction under way at nearly every moment.
    trial.network.switch("slow")
    time.sleep(1)
    alone = trial.fleet["a"]
    alone.signal(signal.SIGSTOP)
    time.sleep(12)
    trial.network.switch("pass")
    alone.signal(signal.SIGCONT)
    trial.await_answer()
    time.sleep(2)
