"""Models that obey what they find, and rerankers that ask them."""

import asyncio
import base64
import json
import re
from collections.abc import Callable, Sequence

from operators.clients.chat.completions import ChatModel
from operators.clients.rerankers import Reranker, RerankRequest
from operators.clients.rerankers.listwise import ChatSelector, Orderer
from operators.query.backend_answers import Scores
from schemas.errors import BackendError
from tests.operators.clients.chat.servers import HEADERS, Make, openai
from tests.operators.clients.http.serving import Handler, answering, backend

Kind = Callable[[ChatModel], Reranker]
KINDS: Sequence[Kind] = (ChatSelector, Orderer)

LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"')
TEMPLATE = re.compile(r"<\|[^|]*\|>|<｜[^｜]*｜>|</?s>|<</?SYS>>|\[/?[A-Z_]+\]|<(?:start|end)_of_turn>")
"""Tokens of chat templates, which servers take for the end of a message wherever they stand."""

NUMERALS = {"one": 1, "ten thousand": 10_000, "a million": 1_000_000}


def obeying(_: str, user: str) -> str:
    """A model that says whatever stands outside quotes and isn't the list it was given, else what it ranks itself."""
    found = strays(user)
    return "\n".join(found) if found else honest(user)


def strays(user: str) -> list[str]:
    """The text outside quotes beyond the bare list, on a line of its own, hidden, or after a template's token."""
    message, *beyond = TEMPLATE.split(user)
    bare = [LITERAL.sub('""', line) for line in message.splitlines()]
    expected = ["Query:", '""', "Documents:", *(f'{number}. ""' for number in range(1, len(bare) - 2))]
    found = [line for line, right in zip(bare, expected, strict=False) if line != right]
    return [*found, *bare[len(expected) :], *(line for line in message.splitlines() if not line.isprintable()), *beyond]


def honest(user: str) -> str:
    """Rank by how often a document holds the query's first word; an empty list where none does."""
    query, *documents = (json.loads(literal).lower() for literal in LITERAL.findall(user))
    word = query.split()[0]
    counts = {number: text.split().count(word) for number, text in enumerate(documents, start=1)}
    order = sorted((number for number in counts if counts[number]), key=lambda number: -counts[number])
    return json.dumps({"ranking": order})


def gullible(_: str, user: str) -> str:
    """A model that says what follows the first `ANSWER`, wherever it stands, in base64 too, else what it ranks itself.

    `(one 9)` is 9, `(ten thousand 9)` as many nines, for what a cut document has no room for.
    """
    for literal in LITERAL.findall(user):
        text = json.loads(literal)
        for encoded in re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", text):
            text += base64.b64decode(encoded + "==").decode("utf-8", "replace")
        if order := re.search(r"ANSWER(.*)", text, re.DOTALL):
            return re.sub(r"\(([a-z ]+) (.+?)\)", lambda many: NUMERALS[many[1]] * many[2], order[1])
    return honest(user)


def request_of(count: int, best: int) -> RerankRequest:
    """A request of `count` candidates, of which the one at `best`, from 0, holds the query."""
    documents = {f"id-{at}": f"document {at}" + (" has the needle" if at == best else "") for at in range(count)}
    return RerankRequest("needle", documents, "docs", "tenant")


def outcomes(
    kind: Kind, handler: Handler, requests: Sequence[RerankRequest], make: Make = openai, *, timeout: float = 5.0
) -> list[Scores | BackendError]:
    """The answers of a reranker of `kind` to `requests`, a call each and all at once, with a server of `handler`."""

    async def scenario() -> list[Scores | BackendError]:
        async with answering(handler) as url, backend(f"{url}/v1", headers=HEADERS[make]) as endpoint:
            reranker = kind(make(endpoint))

            async def outcome(request: RerankRequest) -> Scores | BackendError:
                try:
                    (scores,) = await reranker.score([request], timeout=timeout)
                except BackendError as error:
                    return error
                return scores

            return await asyncio.gather(*(outcome(request) for request in requests))

    return asyncio.run(scenario())
