"""A soak at saturation: its verdicts, and the command."""

import orjson
import pytest

from bench.footprint import HELD
from bench.report import bursts_table
from bench.saturation import BURSTS, report, steady
from bench.soak import sound
from tests.bench.test_figures import measurement
from tests.bench.test_flow import bench
from tests.bench.test_soak import held


def test_a_sound_run() -> None:
    """The counts of all bursts, a row for each, and nothing that grew."""
    found = report([measurement([5.0] * 400)] * BURSTS, held())
    assert (found["sent"], found["lost"], found["twice"]) == (400 * BURSTS, 0, 0)
    assert found["flat"]
    assert found["steady"]
    assert bursts_table(found).row_count == BURSTS


def test_what_grows_or_is_lost_in_any_burst_fails_the_run() -> None:
    """Memory, or one query of one burst."""
    sane = [measurement([5.0] * 400)] * (BURSTS - 1)
    assert not sound(report([*sane, measurement([5.0] * 400)], held(rss_mb=range(100, 140))))
    assert not sound(report([*sane, measurement([5.0] * 399 + [None])], held()))
    assert not sound(report([*sane, measurement([5.0] * 400, twice=1)], held()))


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ([100.0] * 8, True),
        ([10.0, 10.0] + [100.0] * 6, True),
        ([100.0] * 7 + [79.0], False),
        ([100.0] * 7 + [81.0], True),
        ([100.0] * 7 + [121.0], False),
    ],
)
def test_a_burst_that_is_slower_or_faster_than_the_others_is_not_steady(rates: list[float], verdict: bool) -> None:
    """By a fifth of the median; those of the first quarter, while the process warms up, don't count."""
    assert steady(rates) is verdict


@pytest.mark.nightly
@pytest.mark.usefixtures("broker_tools", "machine")
def test_a_short_run_answers_every_query_once() -> None:
    """Burst after burst on a real broker; each figure of the report is there."""
    done = bench("soak", "--saturated", "--at-once", "--queries", "4000", "--client", "librdkafka", "--json")
    found = orjson.loads(done.stdout)
    assert (found["sent"], found["answered"], found["lost"], found["twice"]) == (4000, 4000, 0, 0), done.stderr
    assert len(found["bursts"]) == BURSTS
    assert set(found["held"]) == set(HELD)
    assert done.returncode == (0 if found["flat"] and found["steady"] else 1)
