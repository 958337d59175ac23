"""deploy/prometheus: Prometheus takes the rules, and each alert fires when it should and only then."""

import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from schemas.errors import Reason
from tests.deploy.monitoring import CONFIG, RULES, Expression, alerts, check_names, promtool, rules, series

pytestmark = pytest.mark.slow

NAMES = sorted({alert["alert"] for alert in alerts()})
JOB = {flow: f"rankstream-{flow}" for flow in ("search", "indexing", "feedback")}


class Case(NamedTuple):
    """Series over the minutes, and the alerts that fire at some of them: their labels, but for the name."""

    series: list[dict[str, str]]
    firing: dict[str, list[dict[str, str]]]


def of(name: str, values: str, flow: str = "search", instance: str = "0", **labels: str) -> dict[str, str]:
    """A series as a flow's replica gives it, one value a minute in promtool's notation."""
    own = {"flow": flow, "job": JOB[flow], "instance": instance, **labels}
    if not name.startswith("rankstream_"):
        del own["flow"]
    return {"series": notation(name, own), "values": values}


def notation(name: str, labels: dict[str, str]) -> str:
    """A series as Prometheus writes it."""
    pairs = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{name}{{{pairs}}}"


def lag(values: str, flow: str = "search", instance: str = "0") -> dict[str, str]:
    """The lag of one partition."""
    return of("rankstream_consumer_lag", values, flow, instance, topic="queries", partition="0")


def committed(values: str, flow: str = "search") -> dict[str, str]:
    """Transactions that were committed."""
    return of("rankstream_transactions_total", values, flow, outcome="committed")


def failed(values: str, flow: str = "search") -> dict[str, str]:
    """Transactions that failed."""
    return of("rankstream_transactions_total", values, flow, outcome="failed")


def answered(status: str, values: str) -> dict[str, str]:
    """Answers with a status."""
    return of("rankstream_queries_answered_total", values, status=status)


def degraded(stage: str, reason: str, values: str) -> dict[str, str]:
    """Parts of answers that were lost."""
    return of("rankstream_degraded_total", values, stage=stage, reason=reason)


def latency(in_time: str, all_: str) -> list[dict[str, str]]:
    """Answers within 2.5 s, and all of them."""
    name = "rankstream_query_latency_seconds"
    return [of(f"{name}_bucket", in_time, status="ok", le="2.5"), of(f"{name}_count", all_, status="ok")]


def room(in_flight: str, credit: str, flow: str = "search") -> list[dict[str, str]]:
    """The gauge of messages in flight, and the limit of more."""
    return [of("rankstream_in_flight", in_flight, flow), of("rankstream_credit", credit, flow)]


def letters(values: str) -> dict[str, str]:
    """Dead letters that are no JSON."""
    return of("rankstream_dead_letters_total", values, **{"class": "not_json", "stage": "decode"})


def started(values: str) -> dict[str, str]:
    """The moment when the process was started."""
    return of("process_start_time_seconds", values)


QUIET = range(25, 121)
"""The minutes after the first ones, in which all is new to Prometheus."""

NO_FAILURE = {
    Reason.NO_CONTEXT,
    Reason.NO_EMBEDDER,
    Reason.NO_SPARSE_VECTOR,
    Reason.NO_TERMS,
    Reason.NO_TOKEN_VECTORS,
    Reason.NO_VECTOR,
    Reason.PROFILE,
    Reason.RECIPE,
    Reason.TOO_LARGE,
}
"""Reasons for which nothing failed."""

CRITICAL, WARNING = {"severity": "critical"}, {"severity": "warning"}
SEARCH, INDEXING = {"job": JOB["search"]}, {"job": JOB["indexing"]}
REPLICA = {"flow": "search", "instance": "0", **SEARCH}
NOT_JSON = {"flow": "search", "class": "not_json", "stage": "decode", **SEARCH, **WARNING}

CASES: dict[str, list[Case]] = {
    "RankstreamNoAnswers": [
        Case(
            [lag("0x9 1x30"), committed("0+9x9 81x30"), failed("0+9x40")],
            {"9m": [], "15m": [], "20m": [REPLICA | CRITICAL]},
        ),
        Case([lag("5x30"), committed("0+60x30")], {"20m": []}),
        Case([of("rankstream_in_flight", "0x30")], {"20m": [{"flow": "search", **SEARCH, **CRITICAL}]}),
        Case([lag("5x30", "indexing"), of("rankstream_in_flight", "5x30", "indexing")], {"20m": []}),
        Case([of("rankstream_in_flight", "5x30", "indexing")], {"20m": []}),
        # A replica beyond the number of partitions has none, and needs none.
        Case([of("rankstream_in_flight", "0x30"), lag("0x30", instance="1")], {"20m": []}),
    ],
    "RankstreamAnswersFailed": [
        Case(
            [answered("ok", "0+90x30"), answered("failed", "0+5x30"), answered("expired", "0+5x30")],
            {"3m": [], "15m": [SEARCH | CRITICAL]},
        ),
        Case([answered("ok", "0+98x30"), answered("failed", "0+2x30")], {"15m": []}),
        Case([answered("denied", "0+50x30"), answered("invalid", "0+50x30")], {"15m": []}),
    ],
    "RankstreamAnswersDegraded": [
        Case(
            [
                answered("unranked", "0+100x40"),
                degraded("rerank", "timeout", "0+20x40"),
                degraded("fetch", "timeout", "0+5x40"),
            ],
            {"5m": [], "30m": [{"stage": "rerank", **SEARCH, **WARNING}]},
        ),
        *(
            Case([answered("partial", "0+100x40"), degraded("vector", each, "0+100x40")], {"30m": []})
            for each in NO_FAILURE
        ),
        *(
            Case(
                [answered("partial", "0+100x40"), degraded("vector", each, "0+100x40")],
                {"30m": [{"stage": "vector", **SEARCH, **WARNING}]},
            )
            for each in sorted({*Reason} - NO_FAILURE)
        ),
    ],
    "RankstreamLatencyBudgetBurns": [
        Case(
            latency("0+80x120", "0+100x120"),
            {"2m": [], "10m": [SEARCH | CRITICAL], "70m": [SEARCH | CRITICAL, SEARCH | WARNING]},
        ),
        Case(latency("0+92x120", "0+100x120"), {"70m": [SEARCH | WARNING]}),
        # Once answers are in time again, the fast one ends within minutes.
        Case(latency("0+80x60 4900+100x60", "0+100x120"), {"70m": [SEARCH | WARNING], "110m": []}),
        Case(latency("0+99x120", "0+100x120"), {"70m": []}),
        Case(latency("0x120", "0x120"), {"70m": []}),
    ],
    "RankstreamConsumerLagGrows": [
        Case([lag("0+100x40"), *room("512x40", "0x40")], {"10m": [], "30m": [{"flow": "search", **SEARCH, **WARNING}]}),
        Case([lag("9000-100x40"), *room("512x40", "0x40")], {"30m": []}),
        Case([lag("0+10x40"), *room("400x40", "112x40")], {"30m": []}),
    ],
    "RankstreamDeadLetters": [
        Case([letters("_x20 1x40"), started("0x60")], {"19m": [], "20m": [NOT_JSON], "50m": []}),
        Case([letters("3x30 4x60"), started("0x90")], {"29m": [], "35m": [NOT_JSON], "50m": []}),
        # A new process, whose first scrape has a dead letter already.
        Case([letters("_x40 1x40"), started("_x40 2400x40")], {"39m": [], "40m": [NOT_JSON], "70m": []}),
        # Prometheus was away, and sees what it had seen.
        *(
            Case([letters(f"5x60 _x{gap} 5x60"), started(f"0x60 _x{gap} 0x60")], {f"{minute}m": [] for minute in QUIET})
            for gap in (6, 10, 40)
        ),
        # And a dead letter that came while it was away.
        Case([letters("5x60 _x10 6x60"), started("0x60 _x10 0x60")], {"60m": [], "72m": [NOT_JSON], "100m": []}),
    ],
    "RankstreamFirewallRemovals": [
        Case([of("rankstream_firewall_removals_total", "0x10 2x90")], {"20m": [SEARCH | WARNING], "90m": []}),
        Case([of("rankstream_firewall_removals_total", "5x90")], {"20m": []}),
    ],
    "RankstreamIndexingStandsStill": [
        Case(
            [lag("1x60", "indexing"), committed("0+9x20 180x60", "indexing"), failed("0+9x80", "indexing")],
            {"20m": [], "30m": [], "40m": [{"flow": "indexing", "instance": "0", **INDEXING, **WARNING}]},
        ),
        Case([lag("9000x60", "indexing"), committed("0+1x60", "indexing")], {"40m": []}),
        Case([lag("9000x60")], {"40m": []}),
    ],
    "RankstreamFeedbackShed": [
        Case(
            [of("rankstream_feedback_total", "0x10 2x90", "feedback", outcome="shed")],
            {"20m": [{"job": JOB["feedback"], **WARNING}], "90m": []},
        ),
        Case([of("rankstream_feedback_total", "0+9x30", "feedback", outcome="late")], {"20m": []}),
    ],
    "RankstreamBreakerOpen": [
        Case(
            [
                of("rankstream_breaker_open", "0x5 1x20", backend="qdrant"),
                of("rankstream_breaker_open", "0x30", backend="chat"),
            ],
            {"5m": [], "15m": [{"backend": "qdrant", **REPLICA, **WARNING}]},
        ),
        Case([of("rankstream_breaker_open", "0x9 1 1 0x20", backend="qdrant")], {"11m": [], "13m": []}),
    ],
    "RankstreamCreditExhausted": [
        Case(room("512x40", "0x40"), {"4m": [], "30m": [REPLICA | WARNING]}),
        Case(room("461x40", "51x40"), {"30m": []}),
        Case(room("512x40", "0x40", "indexing"), {"30m": []}),
    ],
    "RankstreamTransactionsFail": [
        Case(
            [committed("0+80x40"), failed("0+20x40")],
            {"5m": [], "30m": [REPLICA | WARNING]},
        ),
        Case([committed("0+99x40"), failed("0+1x40")], {"30m": []}),
    ],
    "RankstreamProducerReplaced": [
        Case(
            [of("rankstream_producer_replacements_total", "0x5 0+1x10 10x90")], {"30m": [REPLICA | WARNING], "90m": []}
        ),
        Case([of("rankstream_producer_replacements_total", "0x5 1x20 2x50")], {"30m": []}),
    ],
    "RankstreamWorkerStandsStill": [
        Case(
            [of("rankstream_worker_idle_seconds", "0 45 0"), of("rankstream_worker_idle_limit_seconds", "60x2")],
            {"0m": [], "1m": [REPLICA | WARNING], "2m": []},
        ),
    ],
    "RankstreamProcessRestarts": [
        Case(
            [of("process_start_time_seconds", "100x5 200x5 300x5 400x90")],
            {"10m": [], "20m": [{"instance": "0", **SEARCH, **WARNING}], "90m": []},
        ),
        Case([of("process_start_time_seconds", "100x5 _x5 200x90")], {"20m": []}),
        Case([of("process_start_time_seconds", "100x5 200x5 300x5 400x90", job="something-else")], {"20m": []}),
    ],
    "RankstreamReplicaDown": [
        Case([of("up", "1x5 0x20")], {"8m": [], "15m": [{"instance": "0", **SEARCH, **WARNING}]}),
        Case([of("up", "0x3 1x20"), of("up", "0x20", job="something-else")], {"15m": []}),
    ],
    "RankstreamNotScraped": [
        Case([of("rankstream_in_flight", "0x20", "indexing")], {"3m": [], "10m": [{"flow": "search", **CRITICAL}]}),
        Case([of("rankstream_in_flight", "0x20")], {"10m": []}),
    ],
    "RankstreamIndexingNotScraped": [
        Case([of("rankstream_in_flight", "0x40")], {"10m": [], "20m": [{"flow": "indexing", **WARNING}]}),
        Case([of("rankstream_in_flight", "0x40", "indexing")], {"20m": []}),
    ],
}


def promtool_file(name: str, cases: list[Case]) -> dict[str, Any]:
    """The cases as promtool reads them: what it asks for is Prometheus's own series of alerts."""
    firing = f'ALERTS{{alertname="{name}", alertstate="firing"}}'
    return {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": case.series,
                "promql_expr_test": [
                    {"expr": firing, "eval_time": at, "exp_samples": [sample(name, labels) for labels in expected]}
                    for at, expected in case.firing.items()
                ],
            }
            for case in cases
        ],
    }


def sample(name: str, labels: dict[str, str]) -> dict[str, Any]:
    """The sample of an alert that fires."""
    return {"labels": notation("ALERTS", {"alertname": name, "alertstate": "firing", **labels}), "value": 1}


def test_prometheus_takes_the_configuration_and_the_rules() -> None:
    """Both files are valid, and the configuration names the rules."""
    assert f"{len(rules())} rules found" in promtool("check", "config", CONFIG)


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_fires_when_it_should_and_only_then(name: str, tmp_path: Path) -> None:
    """Prometheus evaluates the rules over each case's series: the alerts that are expected fire, with these labels."""
    file = tmp_path / "cases.yaml"
    file.write_text(yaml.safe_dump(promtool_file(name, CASES[name])))
    promtool("test", "rules", file)


@pytest.mark.parametrize("name", NAMES)
def test_an_alert_has_cases_of_both_kinds(name: str) -> None:
    """One moment at which it fires, and one at which it does not."""
    moments = [expected for case in CASES[name] for expected in case.firing.values()]
    assert any(moments)
    assert not all(moments)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_rules_name_what_there_is(rule: dict[str, Any]) -> None:
    """Every series and label of a rule exists, and every label of its texts."""
    expression = Expression(rule.get("alert", "record"), rule["expr"])
    check_names(expression)
    labels = set().union(*(series()[name] for name in expression.names)) | {"namespace", "job", "instance"}
    told = " ".join(rule.get("annotations", {}).values())
    assert set(re.findall(r"\$labels\.(\w+)", told)) <= labels


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_says_what_it_is(alert: dict[str, Any]) -> None:
    """It has a severity, a summary that is a sentence, a description, and the path of its own runbook."""
    assert alert["labels"]["severity"] in {"critical", "warning"}
    words = re.findall(r"[A-Z][a-z]+", alert["alert"].removeprefix("Rankstream"))
    assert alert["annotations"].keys() == {"summary", "description", "runbook"}
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["runbook"] == f"docs/runbooks/{'-'.join(words).lower()}.md"
