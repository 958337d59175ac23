"""Faults of the input: poison of every kind, and whatever else bytes can be."""

from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial
from tests.integration.poison import POISON

FUZZED: Final = 10_000
SEED: Final = 20
SMALL: Final = tuple(value for value in POISON if len(value) < 1000)


@scenario("input")
def poison(trial: Trial) -> None:
    """Each kind of poison, thirty times over, is a dead letter of its class, and callers hear; queries are answered."""
    for turn in range(30):
        trial.load.send([(b"poison %d" % turn, value) for value in POISON])
    trial.await_all()
    _assert_unmoved(trial)


@scenario("input", rate=20.0)
def fuzzed(trial: Trial) -> None:
    """10,000 mutated messages each end in a result or a dead letter, of which callers hear; the flow stays up."""
    from tests.operators.mutations import mutations

    messages = mutations(SEED, FUZZED)
    trial.load.send([(key, value) for key, value, _ in messages], [headers for _, _, headers in messages])
    trial.await_all()
    _assert_unmoved(trial)


@scenario("input", replicas=2)
def refusals_killed(trial: Trial) -> None:
    """Killed three times amid hundreds of refusals, the flow gives none a result without its letter, or the other way.

    The law says the rest.
    """
    for turn in range(3):
        trial.load.send([(b"refused %d" % number, value) for number in range(100) for value in SMALL])
        trial.fleet["a"].kill()
        trial.fleet["a"].start(wait=turn == 2)
        trial.await_answer()
    trial.await_all()


def _assert_unmoved(trial: Trial) -> None:
    assert not trial.fleet.restarts, "the flow ended"
    logs = [log.read_text(errors="replace") for log in trial.fleet.logs()]
    assert not any("Traceback" in text for text in logs), "a traceback in a log"
