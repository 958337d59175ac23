"""`python -m bench` has every query answered once and reports in its shape; how fast is not this test's business."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.__main__ import main
from bench.growth import FEWEST
from bench.kafka.broker import REPOSITORY
from bench.report import busy_table, figures_table, goals_table, held_table, windows_table

SPREADS = {"cpu_ms_per_query", "p50_ms", "p99_ms", "p999_ms", "answered_per_s", "late_send_p99_ms"}
CORES = {"cores_subject", "cores_stubs", "cores_broker", "cores_load", "cores_machine"}
COUNTS = {"sent", "answered", "twice", "statuses"}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m bench`."""
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message by which `python -m bench` refuses these arguments, before anything starts."""
    monkeypatch.setattr(sys, "argv", ["bench", *arguments])
    with pytest.raises(SystemExit) as error:
        main()
    assert error.value.code == 2
    return capsys.readouterr().err


def check(row: dict[str, Any], queries: int) -> None:
    """Everything was answered once, and every figure is there for one round."""
    assert {name: row[name] for name in COUNTS} == {
        "sent": queries,
        "answered": queries,
        "twice": 0,
        "statuses": {"ok": queries},
    }
    for name in SPREADS | CORES:
        assert row[name].keys() == {"median", "min", "max", "rounds"}
        assert len(row[name]["rounds"]) == 1
        assert row[name]["median"] >= 0


@pytest.mark.usefixtures("broker_tools", "machine")
@pytest.mark.parametrize(
    "subjects",
    [
        pytest.param(("librdkafka", "asyncio"), id="two"),
        pytest.param(
            ("kafka-python", "librdkafka", "faststream", "transactions", "asyncio"), id="all", marks=pytest.mark.nightly
        ),
    ],
)
def test_every_query_is_answered_once(tmp_path: Path, subjects: tuple[str, ...]) -> None:
    """At a rate and in a burst, by the flow and by the services that it is compared with."""
    done = bench("flow", "--quick", "--json", "--plot", str(tmp_path / "plot.png"), "--subject", *subjects)
    assert done.returncode == 0, done.stderr
    report = orjson.loads(done.stdout)
    assert report.keys() == {"machine", "backends", "rounds", "subjects", "ratios", "goals"}
    assert report["machine"].keys() == {"cores", "cpu", "system", "python", "versions", "load_average"}
    assert report["machine"]["cores"] == len(os.sched_getaffinity(0))
    assert report["machine"]["versions"]["kafka"]
    assert set(report["subjects"]) == set(subjects)
    for subject in report["subjects"].values():
        (rate,) = subject["rates"]
        assert rate.keys() == {"rate", "threads_ms_per_query"} | COUNTS | SPREADS | CORES
        assert rate["rate"] == 50
        check(rate, 150)
        assert subject["burst"].keys() == {"queries", "threads_ms_per_query"} | COUNTS | SPREADS | CORES
        assert subject["burst"]["queries"] == 200
        check(subject["burst"], 200)
        assert "MainThread" in rate["threads_ms_per_query"]
    assert set(report["ratios"]) == {*subjects} - {"asyncio"}
    assert {goal["load"] for goal in report["goals"]} == {"burst"}
    rows = 2 * len(subjects)
    assert (figures_table(report).row_count, busy_table(report).row_count) == (rows, rows)
    assert goals_table(report).row_count == len(report["goals"])
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--rates", "0"],
        ["--rates", "nan"],
        ["--rates", "inf"],
        ["--burst", "-1"],
        ["--rounds", "0"],
        ["--seconds", "-1"],
        ["--subject", "java"],
    ],
)
def test_senseless_plans_are_usage_errors(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything starts."""
    assert arguments[0] in refused(monkeypatch, capsys, "flow", *arguments)


@pytest.mark.parametrize("arguments", [["--queries", "0"], ["--rate", "0"], ["--client", "java"]])
def test_senseless_soaks_are_usage_errors(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything starts."""
    assert arguments[0] in refused(monkeypatch, capsys, "soak", *arguments)


@pytest.mark.nightly
@pytest.mark.usefixtures("broker_tools", "machine")
def test_a_soak_reports_and_judges() -> None:
    """Every query is answered once, every figure is there, and the exit code is the verdict's."""
    done = bench("soak", "--queries", "600", "--rate", "60", "--json")
    report = orjson.loads(done.stdout)
    assert (report["sent"], report["answered"], report["lost"], report["twice"]) == (600, 600, 0, 0), done.stderr
    assert report["statuses"] == {"ok": 600}
    assert report["client"] == "kafka-python"
    assert sum(window["answered"] for window in report["windows"]) == 600
    assert set(report["held"]) == {"rss_mb", "anonymous_mb", "descriptors", "threads"}
    assert len(report["samples"]["rss_mb"]) == len(report["samples"]["seconds"]) >= FEWEST
    assert done.returncode == (0 if report["flat"] else 1)
    assert (windows_table(report).row_count, held_table(report).row_count) == (20, 4)
