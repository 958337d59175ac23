"""Sizes of tests by tier: `make nightly` has the full one, `make test` and `make check` one that shows the promise."""

from hypothesis import settings


def sized(small: int, *, nightly: int) -> int:
    """How many rounds, records or examples a test has in the tier that runs, by its profile of Hypothesis."""
    return nightly if settings.get_current_profile_name() == "nightly" else small
