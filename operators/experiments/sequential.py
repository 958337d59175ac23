"""The sequential test of a preference: anybody may look at any time, and false alarms stay below alpha over all looks.

A query votes for `b` or for `a`, or it is a tie. The preference is p = P(vote for b | no tie); at .5 users prefer
neither. Ties say nothing of p: only the number of queries still needed counts them. Votes are taken as independent.

- The e-value against p is the likelihood of the votes, averaged over a Beta distribution of preferences, divided by
  that under p. If p is true, it is a martingale of mean 1, which ever reaches 1 / alpha with a probability of at most
  alpha.
- The interval has each p whose e-value is below 1 / alpha. At all looks together it contains the true one with a
  probability of at least 1 - alpha.
- The Beta distribution is symmetric, and its standard deviation is the effect that matters, for which the test is
  quick. Any is valid that is chosen before the first look.

Sources: Ville, Étude critique de la notion de collectif, 1939, for the bound; Robbins, Statistical methods related to
the law of the iterated logarithm, 1970, for mixtures; Howard, Ramdas, McAuliffe and Sekhon, Time-uniform,
nonparametric, nonasymptotic confidence sequences, Annals of Statistics 2021, for the interval.
"""

import itertools
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

_PRECISION: Final = 1e-9
"""Of the ends of an interval."""


class Standing(StrEnum):
    """The state of an experiment. `undecided`: it ended by its number of queries, and shows nothing."""

    RUNNING = "running"
    WON_BY_A = "won by a"
    WON_BY_B = "won by b"
    NO_DIFFERENCE = "no difference of that size"
    UNDECIDED = "undecided"
    SHADOW = "shadow"  # Nobody is asked.


class Votes(NamedTuple):
    """Queries of an experiment: for `b`, for `a`, with as many clicks for both, and without any click."""

    wins: int = 0
    losses: int = 0
    ties: int = 0
    silent: int = 0

    @property
    def decisions(self) -> int:
        """The number of queries that voted for one of the two."""
        return self.wins + self.losses


@dataclass(frozen=True)
class SequentialTest:
    """The test whose false alarms are at most `alpha`, planned for a preference of .5 ± `effect` and that power."""

    alpha: float = 0.05
    power: float = 0.8
    effect: float = 0.05

    def log_e_value(self, votes: Votes, p: float = 0.5) -> float:
        """The natural logarithm of the e-value against `p`, of 0 to 1; infinite where the votes are impossible.

        log B(wins + s, losses + s) - log B(s, s) - wins log p - losses log(1 - p), where the mixture is Beta(s, s).
        """
        # The variance of Beta(s, s) is 1 / (4 (2 s + 1)).
        mixture = (1 / (4 * self.effect**2) - 1) / 2
        averaged = _log_beta(votes.wins + mixture, votes.losses + mixture) - _log_beta(mixture, mixture)
        return averaged - _log_power(p, votes.wins) - _log_power(1 - p, votes.losses)

    def is_won(self, votes: Votes) -> bool:
        """True if a preference of .5 is ruled out."""
        return self.log_e_value(votes) >= -math.log(self.alpha)

    def interval(self, votes: Votes) -> tuple[float, float]:
        """The ends of the interval for the preference; 0 and 1 without a decision."""
        if not votes.decisions:
            return 0.0, 1.0
        likeliest = votes.wins / votes.decisions
        return self._end(votes, likeliest, 0.0), self._end(votes, likeliest, 1.0)

    def judge(self, votes: Votes, at_most: int | None = None) -> Standing:
        """The state of an experiment that ends with its winner, once the interval is within .5 ± `effect`, or after
        `at_most` queries. The first two are wrong with a probability of at most `alpha`, together and at all looks.
        """
        if self.is_won(votes):
            return Standing.WON_BY_B if votes.wins > votes.losses else Standing.WON_BY_A
        low, high = self.interval(votes)
        if 0.5 - self.effect < low and high < 0.5 + self.effect:
            return Standing.NO_DIFFERENCE
        return Standing.UNDECIDED if at_most is not None and sum(votes) >= at_most else Standing.RUNNING

    def count_decisions(self) -> int:
        """The decisions by which `b` has won with a probability of `power`, if its preference is .5 + `effect`.

        Exact: the distribution of the wins is carried on from decision to decision without the part that has won. It
        takes about 3 / effect² steps. Source: Armitage, McPherson and Rowe, Repeated significance tests on accumulating
        data, 1969.
        """
        step = np.array([0.5 - self.effect, 0.5 + self.effect])
        # The probability of each number of wins from `least` on.
        running, least, won = np.ones(1), 0, 0.0
        for decisions in itertools.count(1):
            running = np.convolve(running, step)
            while self.is_won(Votes(least, decisions - least)) and 2 * least < decisions:
                running, least = running[1:], least + 1
            while self.is_won(Votes(most := least + len(running) - 1, decisions - most)) and 2 * most > decisions:
                running, won = running[:-1], won + float(running[-1])
            if won >= self.power:
                break
        return decisions

    def count_needed(self, votes: Votes) -> int | None:
        """The queries that are still needed in the mean for `count_decisions`, if as few of them as before decide.

        None if none has decided so far: then nothing is known.
        """
        if not votes.decisions:
            return None
        return math.ceil(max(0, self.count_decisions() - votes.decisions) * sum(votes) / votes.decisions)

    def _end(self, votes: Votes, inside: float, outside: float) -> float:
        """The end of the interval between a preference in it, and one that is outside or the last of its side."""
        bound = -math.log(self.alpha)
        if self.log_e_value(votes, outside) < bound:
            return outside
        while abs(outside - inside) > _PRECISION:
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self.log_e_value(votes, middle) < bound else (inside, middle)
        return outside


def _log_beta(one: float, other: float) -> float:
    return math.lgamma(one) + math.lgamma(other) - math.lgamma(one + other)


def _log_power(base: float, exponent: int) -> float:
    if not exponent:
        return 0.0
    return exponent * math.log(base) if base > 0 else -math.inf
