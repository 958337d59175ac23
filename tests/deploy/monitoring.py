"""The files that the tests of Prometheus and Grafana read: rules, dashboards, expressions, and the names in these.

An expression is checked by Prometheus's own promtool. Names and labels are found by their form, which is enough: an
expression here names no label by a string.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from prometheus_client import Counter, Histogram
from prometheus_client.metrics import MetricWrapperBase

from operators.telemetry.metrics import FlowMetrics, Instruments
from tests.deploy.files import DEPLOY, ROOT
from tests.missing import missing

RULES: Final = DEPLOY / "prometheus" / "rules.yaml"
CONFIG: Final = DEPLOY / "prometheus" / "prometheus.yaml"
DASHBOARDS: Final = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
RUNBOOKS: Final = ROOT / "docs" / "runbooks"

TARGET: Final = frozenset({"namespace", "job", "instance"})
"""The labels that Prometheus adds to what it scrapes."""

PROMETHEUS: Final = {"up": frozenset[str](), "ALERTS": frozenset({"alertname", "alertstate", "severity"})}
"""Series that Prometheus makes itself."""

_NAME: Final = re.compile(r"(?<![\w:$])(?:job:)?(?:rankstream|process)_\w+(?::\w+)?(?!\w*\()|\bup\b|\bALERTS\b")
_MATCHERS: Final = re.compile(r"([\w:]+)\{([^}]*)\}")
_GROUPING: Final = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


class Expression(NamedTuple):
    """A query, and where it stands."""

    where: str
    text: str

    @property
    def names(self) -> set[str]:
        """The series that it reads."""
        return set(_NAME.findall(re.sub(r'"[^"]*"', '""', self.text)))

    @property
    def matched(self) -> Iterator[tuple[str, str]]:
        """Each series with each label by which it is chosen."""
        for name, matchers in _MATCHERS.findall(self.text):
            for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', '""', matchers)):
                yield name, label

    @property
    def grouped(self) -> set[str]:
        """The labels by which it groups or joins."""
        return {label for labels in _GROUPING.findall(self.text) for label in re.findall(r"\w+", labels)}


@cache
def rules() -> list[dict[str, Any]]:
    """Every rule."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """The rules that alert."""
    return [rule for rule in rules() if "alert" in rule]


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels of a dashboard, but for its rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def dashboard_expressions(file: Path) -> list[Expression]:
    """Every query of a dashboard, with values in place of its variables."""
    dashboard = json.loads(file.read_text())
    found = [
        Expression(f"{file.name}: {panel['title']}", target["expr"])
        for panel in panels(dashboard)
        for target in panel["targets"]
    ]
    found += [Expression(f"{file.name}: {each['name']}", each["expr"]) for each in dashboard["annotations"]["list"]]
    return [each._replace(text=filled(each.text)) for each in found]


def filled(text: str, **values: str) -> str:
    """An expression with a value for each variable of Grafana; without one, what takes every series."""
    known = {"__rate_interval": "1m", "__range": "1h", "job": ".+", "instance": ".+", "namespace": ".*", **values}
    return re.sub(r"\$(\w+)", lambda variable: known[variable[1]], text)


def page_expressions(page: Path) -> list[Expression]:
    """A page's words in backticks that name a series."""
    code = re.findall(r"`([^`]+)`", re.sub(r"(?ms)^ *```.*?^ *```", "", page.read_text(encoding="utf-8")))
    return [each for text in code if (each := Expression(page.name, " ".join(text.split()))).names]


@cache
def series() -> dict[str, frozenset[str]]:
    """The labels of every series that there is: rankstream's, its recorded ones, the process's, Prometheus's own."""
    FlowMetrics(instruments := Instruments(), "search")
    found = dict(PROMETHEUS)
    for each in instruments.by_name.values():
        labels = frozenset(each._labelnames)
        for suffix in suffixes(each):
            found[each._name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    for family in instruments.registry.collect():
        if family.name.startswith("process_") or family.name == "rankstream_build_info":
            found |= {sample.name: frozenset(sample.labels) for sample in family.samples}
    for rule in rules():
        if "record" in rule:
            found[rule["record"]] = frozenset(Expression("", rule["expr"]).grouped) - TARGET
    return found


def suffixes(instrument: MetricWrapperBase) -> tuple[str, ...]:
    """The suffixes that a scrape adds to an instrument's name."""
    if isinstance(instrument, Histogram):
        return "_bucket", "_sum", "_count"
    return ("_total",) if isinstance(instrument, Counter) else ("",)


def promtool(*arguments: str | Path) -> str:
    """The output of promtool; fails with it unless it exits with 0."""
    program = shutil.which("promtool")
    if program is None:
        missing("the rules are checked by promtool, which comes with Prometheus")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def check_parse(expressions: Iterable[Expression], directory: Path) -> None:
    """Fail unless Prometheus can read every one of them."""
    parsed = [{"alert": each.where, "expr": each.text} for each in expressions]
    file = directory / "expressions.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "expressions", "rules": parsed}]}))
    promtool("check", "rules", "--lint=none", file)


def check_names(expression: Expression) -> None:
    """Fail unless every series and every label that it names exists."""
    known = series()
    unknown = expression.names - known.keys()
    assert not unknown, f"{expression.where}: no such series: {unknown}"
    labels = TARGET.union(*(known[name] for name in expression.names))
    assert expression.grouped <= labels, f"{expression.where}: {expression.grouped - labels}"
    for name, label in expression.matched:
        assert label in known[name] | TARGET, f"{expression.where}: {name} has no label {label}"
