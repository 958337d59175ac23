"""The micro benchmarks measure every part that they have a baseline of, and tell a slower part from a noisy one."""

import pytest

from bench import micro, report
from bench.figures import spread


@pytest.mark.slow
def test_every_part_is_measured_and_has_a_baseline() -> None:
    """Each costs something; none is measured without a baseline, and no baseline is of a part that is gone."""
    measured = micro.figures(1)
    assert set(measured["ratios"]) == set(micro.baseline())
    assert all(each["median"] > 0 for each in measured["ratios"].values())
    assert report.parts_table(measured, micro.baseline()).row_count == len(measured["ratios"])


def test_a_slower_part_is_told() -> None:
    """By the best round: one slow round is noise, and a part without a baseline is not judged."""
    measured = {"ratios": {"decode": spread([2.0, 9.0]), "publish": spread([5.0, 6.0]), "new": spread([7.0])}}
    assert micro.slower(measured, {"decode": 2.0, "publish": 2.0}) == {"publish": 2.5}
