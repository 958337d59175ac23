"""The tables of servers' manners on the page about backends, of the tables that the tests play."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.operators.clients.chat.manners import MANNERS
from tests.operators.clients.chat.playing import Manner as ChatManner
from tests.operators.clients.model_servers.manners import EMBEDDERS, RERANKERS, SPARSE_ENCODERS
from tests.operators.clients.model_servers.playing import Manner

_BEGIN: Final = "<!-- generated: manners -->\n"
_END: Final = "<!-- end of generated -->\n"

_FAILURES: Final = {
    "raise chat.max_tokens": "`bad_response`; the log says to raise `chat.max_tokens`",
    "thinking off": "`bad_response`; the log says to turn thinking off, or to give the server the model's parser",
    "refused": "a failure; the log has the status, `rankstream check` the server's words and the keys to correct",
    "bad answer": "`bad_response`",
}


def page(file: Path) -> str:
    """The page with fresh tables between its marks."""
    before, rest = file.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    parts = [
        "**Embedders**\n",
        *_table(("server", "`embedder.kind`", "manner", "outcome"), map(_row, EMBEDDERS)),
        "\n**Sparse encoders**\n",
        *_table(("server", "`sparse_encoder.kind`", "manner", "outcome"), map(_row, SPARSE_ENCODERS)),
        "\n**Rerankers**\n",
        *_table(("server", "`rerank.kind`", "manner", "outcome"), map(_row, RERANKERS)),
        "\n**Chat models**\n",
        *_table(("server", "`chat.kind`", "manner", "outcome"), map(_chat_row, MANNERS)),
    ]
    return before + _BEGIN + "\n" + "\n".join(parts) + "\n\n" + _END + after


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> Iterator[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _row(manner: Manner) -> Sequence[str]:
    return manner.server, f"`{manner.kind}`", manner.case, manner.outcome


def _chat_row(manner: ChatManner) -> Sequence[str]:
    ways = {} if manner.structured == "json_schema" else {"structured": manner.structured}
    settings = {**ways, **({"parameters": json.dumps(manner.parameters)} if manner.parameters else {})}
    keys = " and ".join(f"`chat.{name}: {value}`" for name, value in settings.items())
    case = f"{manner.case}, with {keys}" if keys else manner.case
    return manner.server, f"`{manner.kind}`", case, _FAILURES.get(manner.outcome, manner.outcome)
