"""The tables of servers' manners on the page about backends, of the tables that the tests play."""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.operators.clients.chat.manners import MANNERS
from tests.operators.clients.chat.playing import Manner as ChatManner
from tests.operators.clients.model_servers.manners import EMBEDDERS, RERANKERS, SPARSE_ENCODERS
from tests.operators.clients.model_servers.playing import Manner

_BEGIN: Final = "<!-- generated: manners -->\n"
_END: Final = "<!-- end of generated -->\n"

_CHAT: Final = {
    "raise chat.max_tokens": "cut",
    "thinking off": "thoughts alone",
    "refused": "request refused",
    "bad answer": "no number",
}
"""The outcomes of chat models as the page calls them."""

Row = tuple[str, str, str, str]
"""A server, its kind, a manner of it, and the outcome."""


def page(file: Path) -> str:
    """The page with fresh tables between its marks."""
    before, rest = file.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    sections = (
        ("Embedders", "embedder", map(_row, EMBEDDERS)),
        ("Sparse encoders", "sparse_encoder", map(_row, SPARSE_ENCODERS)),
        ("Rerankers", "rerank", map(_row, RERANKERS)),
        ("Chat models", "chat", map(_chat_row, MANNERS)),
    )
    parts = ["\n".join((f"**{title}**\n", *_table(f"`{key}.kind`", rows))) for title, key, rows in sections]
    return before + _BEGIN + "\n" + "\n\n".join(parts) + "\n\n" + _END + after


def _table(kind: str, rows: Iterable[Row]) -> Iterator[str]:
    """A row for each server and kind, with a column for each outcome that lists the manners with this outcome."""
    outcomes: dict[str, None] = {}
    manners: dict[tuple[str, str], dict[str, list[str]]] = {}
    for server, of_kind, manner, outcome in rows:
        outcomes[outcome] = None
        manners.setdefault((server, of_kind), {}).setdefault(outcome, []).append(manner)
    cells: list[Sequence[str]] = [("server", kind, *outcomes), ["---"] * (2 + len(outcomes))]
    cells += [(*place, *("; ".join(found.get(each, ())) for each in outcomes)) for place, found in manners.items()]
    yield from ("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells)


def _row(manner: Manner) -> Row:
    return manner.server, f"`{manner.kind}`", manner.case, manner.outcome


def _chat_row(manner: ChatManner) -> Row:
    ways = {} if manner.structured == "json_schema" else {"structured": manner.structured}
    settings = {**ways, **({"parameters": json.dumps(manner.parameters)} if manner.parameters else {})}
    keys = " and ".join(f"`{name}: {value}`" for name, value in settings.items())
    case = f"{manner.case}, with {keys}" if keys else manner.case
    return manner.server, f"`{manner.kind}`", case, _CHAT.get(manner.outcome, manner.outcome)
