"""`rankstream reindex`: what it does before it has begun."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from flows.cli import reindex
from operators.clients.qdrant.client import QdrantClient
from schemas.errors import BackendTimeout, BackendUnavailable
from tests.operators.runtime.test_async_stage import looping

NOBODY: Any = None


def test_a_server_that_is_restarting_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first question is asked until it is answered; without an answer in time the command says so."""
    failures = [BackendUnavailable("it restarts")] * 2

    async def read(_: QdrantClient) -> int:
        if failures:
            raise failures.pop()
        return 7

    with looping() as calls:

        def ask(work: Callable[[QdrantClient], Coroutine[Any, Any, Any]], timeout: float) -> Any:
            return calls.run(work(NOBODY), timeout)

        assert reindex._wait(ask, read) == 7
        failures += [BackendUnavailable("it is gone")] * 1000
        monkeypatch.setattr(reindex, "_TIMEOUT", 0.3)
        with pytest.raises(BackendTimeout, match="no answer within"):
            reindex._wait(ask, read)
