"""Overload: more is asked than can be answered."""

import statistics
import subprocess
import sys
import time
from typing import Final

from bench.kafka.broker import REPOSITORY
from tests.faults.law import OutputRecord
from tests.faults.scenario import scenario
from tests.faults.trial import Trial

BURST: Final = 3000
TIMES: Final = 3.0
OVERLOAD_S: Final = 60.0
NORMAL: Final = 0.3
"""The normal rate, as a part of the saturated one."""
NORMAL_S: Final = 10.0
TIMEOUT_S: Final = 2.0

MARGIN_S: Final = 2.0
"""The time after its deadline within which an answer may still reach its reader."""
LASTING: Final = 1.5
"""The ratio of medians: five seconds after the overload, and before it."""
GROWTH: Final = 2.0
"""The memory that the overload may need in addition."""

_FIRST: Final = 1_000_000


@scenario("load", rate=None)
def overload(trial: Trial, seconds: float = OVERLOAD_S) -> None:
    """Three times what it can answer for a minute: nothing is lost, late queries expire unasked, memory is bounded."""
    alone = trial.fleet["a"]
    saturated = _saturation(trial)
    normal = NORMAL * saturated
    _send(trial, normal, NORMAL_S, 1)
    trial.await_all()
    before, memory = time.time(), alone.resident()
    quiet = _median(_asked_between(trial, before - NORMAL_S / 2, before))
    alone.memory = memory
    began, ended = _send(trial, TIMES * saturated, seconds, 2)
    back, over = _send(trial, normal, NORMAL_S, 3)
    trial.await_all()
    during = _asked_between(trial, began, ended)
    expired = [output_record for output_record, _ in during if output_record.kind == "expired"]
    late = max(
        (latency - TIMEOUT_S for output_record, latency in during if output_record.kind != "expired"), default=0.0
    )
    after = _median(_asked_between(trial, back + NORMAL_S / 2, over))
    trial.figures |= {
        "saturated at, queries/s": f"{saturated:.0f}",
        "overload, queries/s": f"{len(during) / (ended - began):.0f}",
        "expired": f"{100 * len(expired) / max(len(during), 1):.0f} %",
        "expired after a call": str(sum(output_record.called for output_record in expired)),
        "latest answer after its deadline, ms": f"{1000 * late:.0f}",
        "p50 before and 5 to 10 s after, ms": f"{1000 * quiet:.0f}, {1000 * after:.0f}",
        "memory before and at most, MiB": f"{memory / 2**20:.0f}, {alone.memory / 2**20:.0f}",
    }
    assert expired, "nothing expired: it wasn't an overload"
    assert not any(output_record.called for output_record in expired), "a backend was asked for an expired query"
    assert late <= MARGIN_S, f"an answer came {late:.2f} s after its deadline"
    assert after <= LASTING * quiet, f"the median went from {1000 * quiet:.0f} to {1000 * after:.0f} ms"
    assert alone.memory <= GROWTH * memory, f"memory went from {memory / 2**20:.0f} to {alone.memory / 2**20:.0f} MiB"
    assert not alone.restarts, "the flow ended"


def _saturation(trial: Trial) -> float:
    """Queries a second that it answers of a burst, the second of two."""
    for _ in range(2):
        began = time.time()
        trial.load.ask(BURST)
        trial.await_all()
        last = max(output_record.arrival for output_record in trial.reader.output_records)
    return BURST / (last - began)


def _send(trial: Trial, rate: float, seconds: float, phase: int) -> tuple[float, float]:
    """Queries from a process of its own; from when to when, in Unix seconds."""
    command = [sys.executable, "-m", "tests.faults.load", "--bootstrap", trial.broker.bootstrap]
    command += ["--topic", trial.topic("queries"), "--rate", str(rate), "--seconds", str(seconds)]
    command += ["--timeout-ms", str(int(1000 * TIMEOUT_S)), "--first", str(phase * _FIRST)]
    began = time.time()
    subprocess.run(command, cwd=REPOSITORY, check=True)
    ended = time.time()
    trial.load.stretches.append((began, ended))
    return began, ended


def _asked_between(trial: Trial, began: float, ended: float) -> list[tuple[OutputRecord, float]]:
    """The results of what was asked meanwhile, each with its latency in seconds."""
    asked = trial.asked()
    latencies = [
        (output_record, output_record.arrival - asked[output_record.place].timestamp)
        for output_record in trial.answers(began)
    ]
    return [
        (output_record, latency)
        for output_record, latency in latencies
        if began <= output_record.arrival - latency <= ended
    ]


def _median(answers: list[tuple[OutputRecord, float]]) -> float:
    return statistics.median(latency for _, latency in answers)
