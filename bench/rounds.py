"""The plan of a measurement, and its rounds: every subject in turn, from a fresh start, under every load."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bench.figures import Measurement, Phase, summary
from bench.rig import Rig, Running
from bench.subject import Subject

WARM_UP_RATE: Final = 200.0

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """Rates a second, for how many seconds each, how often, and the size of the burst, 0 for none."""

    rates: Sequence[float]
    seconds: float
    rounds: int
    burst: int
    warm_up: int

    def phase(self, rate: float) -> Phase:
        """The load at one of the rates."""
        return Phase(max(round(rate * self.seconds), 1), rate)


@dataclass(slots=True)
class Outcome:
    """The measurements of one subject, one a round."""

    rates: dict[float, list[Measurement]] = field(default_factory=dict)
    burst: list[Measurement] = field(default_factory=list)

    def lost(self) -> int:
        """Queries without an answer."""
        every = [*self.burst, *(each for rounds in self.rates.values() for each in rounds)]
        return sum(each.sent - each.answered for each in every)

    def report(self) -> dict[str, Any]:
        """The figures over all rounds."""
        return {
            "rates": [{"rate": rate, **summary(rounds)} for rate, rounds in self.rates.items()],
            "burst": {"queries": self.burst[0].sent, **summary(self.burst)} if self.burst else None,
        }


def compare(rig: Rig, subjects: Sequence[Subject], plan: Plan, progress: Progress) -> dict[str, Outcome]:
    """The outcomes by the subjects' names, in interleaved rounds, so that a slow hour slows all, and every other round
    the other way round, so that none always comes first. Raises BenchError.
    """
    outcomes = {subject.name: Outcome() for subject in subjects}
    for number in range(1, plan.rounds + 1):
        for subject in subjects if number % 2 else reversed(subjects):
            prefix = f"{subject.name}, round {number} of {plan.rounds}"
            outcome = outcomes[subject.name]
            with rig.running(subject) as running:
                warm_up(running, plan, progress, prefix)
                for rate in plan.rates:
                    progress(f"{prefix}: {rate:g} queries/s")
                    outcome.rates.setdefault(rate, []).append(running.measure(plan.phase(rate)))
                if plan.burst:
                    progress(f"{prefix}: burst of {plan.burst}")
                    outcome.burst.append(running.measure(Phase(plan.burst)))
    return outcomes


def warm_up(running: Running, plan: Plan, progress: Progress, prefix: str) -> None:
    """Send queries that no figure counts. Raises BenchError."""
    progress(f"{prefix}: warm-up of {plan.warm_up}")
    running.measure(Phase(plan.warm_up, WARM_UP_RATE))
