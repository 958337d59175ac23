"""deploy/grafana/dashboards: what they show exists, what exists is shown, and Grafana can lay them out."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from operators.telemetry.metrics import FlowMetrics, Instruments
from tests.deploy.files import ROOT
from tests.deploy.monitoring import (
    DASHBOARDS,
    TARGET,
    Expression,
    check_names,
    check_parse,
    dashboard_expressions,
    panels,
    rules,
    series,
    suffixes,
)

DOCS = ROOT / "docs"
WIDTH = 24
"""Columns of Grafana's grid."""

each_dashboard = pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)


def loaded(file: Path) -> dict[str, Any]:
    """A dashboard."""
    dashboard: dict[str, Any] = json.loads(file.read_text())
    return dashboard


def test_there_is_one_for_each_flow() -> None:
    """Each is found by its flow, and its links keep their address."""
    assert [file.stem for file in DASHBOARDS] == ["rankstream-indexing", "rankstream-search"]
    assert [loaded(file)["uid"] for file in DASHBOARDS] == [file.stem for file in DASHBOARDS]


@each_dashboard
def test_queries_name_what_there_is(file: Path) -> None:
    """Every series and every label exists."""
    for expression in dashboard_expressions(file):
        check_names(expression)


@each_dashboard
def test_queries_parse(file: Path, tmp_path: Path) -> None:
    """Prometheus can read each of them, once Grafana has filled its variables in."""
    check_parse(dashboard_expressions(file), tmp_path)


@each_dashboard
def test_queries_are_of_the_chosen_replicas(file: Path) -> None:
    """Each series is chosen by job and instance, and rankstream's by the dashboard's flow, or by feedback's, which has
    one panel, beside those of experiments.
    """
    for panel in panels(loaded(file)):
        flow = "feedback" if panel["title"] == "Feedback" else file.stem.removeprefix("rankstream-")
        for target in panel["targets"]:
            for chosen in re.findall(r"(?:rankstream|process)_\w+(?:\{([^}]*)\})?", target["expr"]):
                assert 'job=~"$job", instance=~"$instance"' in chosen, panel["title"]
            for chosen in re.findall(r"rankstream_\w+\{([^}]*)\}", target["expr"]):
                assert f'flow="{flow}"' in chosen, panel["title"]


@each_dashboard
def test_legends_name_labels_of_their_series(file: Path) -> None:
    """A legend contains only labels that the query leaves."""
    for panel in panels(loaded(file)):
        for target in panel["targets"]:
            expression = Expression(panel["title"], target["expr"])
            kept = expression.grouped or TARGET.union(*(series()[name] for name in expression.names))
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, panel["title"]


@each_dashboard
def test_exemplars_are_asked_of_what_has_them(file: Path) -> None:
    """The two histograms whose samples lead to a trace, wherever they are shown by panels over time, and no others."""
    having = {"rankstream_query_latency_seconds_bucket", "rankstream_stage_duration_seconds_bucket"}
    for panel in panels(loaded(file)):
        for target in panel["targets"]:
            shown = panel["type"] == "timeseries" and Expression("", target["expr"]).names <= having
            assert target.get("exemplar", False) is shown, panel["title"]


def test_every_metric_is_shown() -> None:
    """Each instrument is on a dashboard; a histogram by one of its series at least."""
    shown = {name for file in DASHBOARDS for each in dashboard_expressions(file) for name in each.names}
    FlowMetrics(instruments := Instruments(), "search")
    for each in instruments.by_name.values():
        assert shown & {each._name + suffix for suffix in suffixes(each)}, each._name


@each_dashboard
def test_rows_are_in_the_order_of_the_page(file: Path) -> None:
    """They have the headings of docs/observability.md."""
    pages = list(DOCS.rglob("observability.md"))
    [metrics] = re.findall(r"(?ms)^## Metrics$(.*?)^## ", pages[0].read_text(encoding="utf-8"))
    assert [panel["title"] for panel in loaded(file)["panels"] if panel["type"] == "row"] == re.findall(
        r"(?m)^### (.*)", metrics
    )


@each_dashboard
def test_panels_say_what_they_show(file: Path) -> None:
    """Each has a title of its own, a description, a unit, and the data source that is chosen above."""
    found = panels(loaded(file))
    assert len({panel["title"] for panel in found}) == len(found)
    for panel in found:
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEF"[: len(panel["targets"])])


@each_dashboard
def test_panels_do_not_overlap(file: Path) -> None:
    """Each cell of the grid belongs to one panel at most, and none is beyond the edge."""
    taken: set[tuple[int, int]] = set()
    for panel in loaded(file)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@each_dashboard
def test_variables_that_are_used_are_there(file: Path) -> None:
    """Each is defined, or Grafana's own; and each that is defined is used."""
    text = file.read_text()
    defined = {variable["name"] for variable in loaded(file)["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval", "__range", "__all"} == defined


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_pages_name_metrics_that_there_are(page: Path) -> None:
    """Whatever has the form of a metric's name, in any page of the documentation."""
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in series()}
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    for name in re.findall(r"(?<![\w./:-])(?:job:)?(?:rankstream|process)_[a-z_]+\w(?::\w+)?", page.read_text("utf-8")):
        assert name in families | series().keys() | recorded, name
