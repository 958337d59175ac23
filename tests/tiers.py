"""Sizes of tests by tier: `make nightly` has the full one, `make test` and `make check` one that shows the promise."""

from hypothesis import settings


def sized(small: int, *, nightly: int) -> int:
    """The number of rounds, records or examples of a test in the tier that runs, by the profile of Hypothesis."""
    return nightly if settings.get_current_profile_name() == "nightly" else small
