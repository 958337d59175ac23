"""docs/reference/observability.md: every metric that there is, with its labels, and none that there isn't."""

import re
from pathlib import Path

from prometheus_client import Counter
from prometheus_client.metrics import MetricWrapperBase

from operators.telemetry.metrics import FLOW, FlowMetrics, Instruments

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "observability.md"
_ROW = re.compile(r"^\| `(rankstream_\w+)` \| ([^|]*)\| ([^|]+) \|$", re.MULTILINE)


def instruments() -> dict[str, MetricWrapperBase]:
    """The instruments by the name of their series."""
    FlowMetrics(instruments := Instruments(), "search")
    return {
        f"{each._name}_total" if isinstance(each, Counter) else each._name: each
        for each in instruments.by_name.values()
    }


def test_the_page_has_every_metric_with_its_labels() -> None:
    """The tables name the metrics of the code, each once, with the labels that it has beside `flow`."""
    told = [(name, tuple(re.findall(r"`(\w+)`", labels))) for name, labels, _ in _ROW.findall(PAGE.read_text())]
    known = {name: tuple(label for label in each._labelnames if label != FLOW) for name, each in instruments().items()}
    assert sorted(told) == sorted(known.items())


def test_every_metric_has_the_label_flow() -> None:
    """A process may run both flows, and each is told from the other."""
    assert {each._labelnames[0] for each in instruments().values()} == {FLOW}


def test_durations_and_histograms_are_called_so() -> None:
    """Every histogram of the page is one, and every metric in seconds says so in its name."""
    rows = {name: said for name, _, said in _ROW.findall(PAGE.read_text())}
    histograms = {name for name, each in instruments().items() if type(each).__name__ == "Histogram"}
    assert {name for name, said in rows.items() if said.startswith("Histogram")} == histograms
    counts = {"rankstream_batch_size", "rankstream_experiment_overlap"}
    assert {name for name in histograms if not name.endswith("_seconds")} == counts
