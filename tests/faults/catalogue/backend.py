"""Faults of the backends: every query is answered with the rest, and the answer says what is missing."""

import time
from collections import Counter
from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial

FAULT_S: Final = 6.0
FLAP_S: Final = 0.3

STATUS: Final = {"qdrant": "failed", "embedder": "partial", "reranker": "unranked"}
STAGES: Final = {"qdrant": {"vector", "keyword", "fetch"}, "embedder": {"embed"}, "reranker": {"rerank"}}
REASONS: Final = {
    "refuse": {"unavailable"},
    "hang": {"timeout"},
    "slow": {"timeout"},
    "garbage": {"bad_response"},
    # What it lets through is late on a busy machine, since all that waited comes at once.
    "flapping": {"unavailable", "timeout"},
}
BEARABLE: Final = frozenset({"slow", "flapping"})
"""A slow backend may be fast enough, and a flapping one be asked again in time: then no answer lacks what it gives."""

_SPARED: Final = "unavailable"
"""The reason that an open breaker gives."""


def hurt(trial: Trial, backend: str, fault: str) -> None:
    """Hurt one backend under load, then see `ok` answers again."""
    proxy = trial.backends[backend]
    began = time.time()
    if fault == "flapping":
        while time.time() < began + FAULT_S:
            proxy.switch("refuse")
            time.sleep(FLAP_S)
            proxy.switch("pass")
            time.sleep(FLAP_S)
    else:
        proxy.switch(fault)
        time.sleep(FAULT_S)
        proxy.switch("pass")
    healed = time.time()
    degraded = [answer for answer in trial.answers(began) if answer.degraded]
    stages = Counter(stage for answer in degraded for stage, _ in answer.degraded)
    # What is lost elsewhere on a busy machine says nothing of a fault that cost nothing.
    if stages.keys() & STAGES[backend] or (degraded and fault not in BEARABLE):
        reasons = Counter(reason for answer in degraded for _, reason in answer.degraded)
        if _SPARED not in REASONS[fault]:
            # An open breaker spares the backend most of the queries.
            del reasons[_SPARED]
        # At its two ends a fault can look like another: what most answers say is what counts.
        assert stages.most_common(1)[0][0] in STAGES[backend], f"{dict(stages)} with the {backend} hurt"
        assert max(reasons, key=reasons.__getitem__, default=None) in REASONS[fault], f"{dict(reasons)} after {fault}"
    if fault not in BEARABLE:
        assert STATUS[backend] in {answer.kind for answer in degraded}, "no answer noticed"
    trial.await_full_answer(healed + 1)


def _define(backend: str, fault: str) -> None:
    @scenario(
        "backend", name=f"{backend}-{fault}", promise=f"The {backend} is hurt ({fault}) for six seconds under load."
    )
    def act(trial: Trial) -> None:
        hurt(trial, backend, fault)


for _backend in STATUS:
    for _fault in REASONS:
        _define(_backend, _fault)
