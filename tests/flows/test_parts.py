"""The search flow's parts, made of the settings."""

from typing import Any

import pytest

from flows.parts import StageBounds
from schemas.settings import load

CHAT = {"kind": "openai", "url": "http://c", "model": "m", "timeout": 7.0}


@pytest.mark.parametrize(("chat", "patience"), [({}, 2.0), (CHAT, 7.0), ({**CHAT, "timeout": 1.0}, 2.0)])
def test_the_rerank_stage_waits_for_whoever_takes_longer(chat: dict[str, Any], patience: float) -> None:
    """A chat model's pick is made where rerankers are called: its time counts if there is one, and is longer."""
    settings = load(None, {"qdrant": {"url": "http://q"}, "rerank": {"timeout": 2.0}, "chat": chat})
    assert StageBounds.of(settings).rerank.timeout == patience
