"""The findings of `rankstream check` about time: whether the clocks of the HTTP backends and of this machine agree."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final

from flows.assembly.clients import InProcess
from flows.cli.findings import Finding
from operators.clients.http.clock import Ahead, ahead
from operators.clients.http.transport import http_transport
from schemas.errors import BackendError, ConfigError
from schemas.settings import Settings

_TIMEOUT: Final = 5.0

_MOST: Final = 2.0
"""Seconds by which clocks may differ: deadlines are counted in such times."""

_WHY: Final = "deadlines, ages and dates count from the clocks of the producers and of this machine"

Compared = Ahead | BackendError | ConfigError | None


def clock(settings: Settings, _: InProcess) -> Iterator[Finding]:
    """Whether this machine's clock agrees with that of each server that is asked over HTTP."""
    servers = {name: url for name, url in _servers(settings).items() if url is not None}
    if not servers:
        yield Finding("ok", "clock", "not compared: no backend is asked over HTTP")
    for name, compared in asyncio.run(_compared(servers)).items():
        yield _finding(f"clock {name}", compared)


def _servers(settings: Settings) -> Mapping[str, str | None]:
    embedder, rerank, chat = settings.embedder, settings.rerank, settings.chat
    return {
        "qdrant": settings.qdrant.url,
        "embedder": embedder.url if embedder.kind not in {"none", "minilm"} else None,
        "reranker": rerank.url if rerank.kind not in {"none", "late_interaction", "onnx", "chat"} else None,
        "chat": chat.url if chat.kind != "none" else None,
    }


async def _compared(servers: Mapping[str, str]) -> dict[str, Compared]:
    async def one(name: str, url: str) -> Compared:
        try:
            return await ahead(name, url, http_transport(), _TIMEOUT)
        except (BackendError, ConfigError) as error:
            return error

    found = await asyncio.gather(*(one(name, url) for name, url in servers.items()))
    return dict(zip(servers, found, strict=True))


def _finding(subject: str, compared: Compared) -> Finding:
    if not isinstance(compared, Ahead):
        why = "the answer has no date" if compared is None else str(compared)
        return Finding("ok", subject, f"not compared: {why}")
    if compared.least <= _MOST and compared.most >= -_MOST:
        return Finding("ok", subject, "it agrees with this machine's clock")
    about = round((compared.least + compared.most) / 2)
    differs = f"this machine's clock is about {abs(about)} s {'ahead of' if about > 0 else 'behind'} it"
    return Finding("warning", subject, f"{differs}: {_WHY}", "Synchronise the clocks of all machines (NTP).")
