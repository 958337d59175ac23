"""Models that obey what they find, and pickers that ask them."""

import asyncio
import json
import re
from collections.abc import Sequence

from operators.clients.rerankers import RerankRequest, Scores
from operators.clients.rerankers.picker import Picker
from schemas.errors import BackendError
from tests.operators.clients.chat_models.servers import HEADERS, Make, openai
from tests.operators.clients.serving import Handler, answering, backend


def obeying(_: str, user: str) -> str:
    """A model that obeys any `ANSWER` outside quotes or on a line that isn't data, else picks what holds the query."""
    order = re.search(r"ANSWER (.*)", _outside(user))
    return order[1] if order else _honest(user)


def gullible(_: str, user: str) -> str:
    """A model that obeys any `ANSWER`, wherever it stands."""
    texts = [json.loads(literal) for literal in re.findall(r'"(?:[^"\\]|\\.)*"', user)]
    order = re.search(r"ANSWER (.*)", "\0".join(texts), re.DOTALL)
    return order[1].split("\0")[0] if order else _honest(user)


def _outside(user: str) -> str:
    unquoted = re.sub(r'"(?:[^"\\]|\\.)*"', "", user)
    strays = [line for line in user.splitlines() if not re.fullmatch(r'(\d+\. )?"(?:[^"\\]|\\.)*"', line)]
    return "\n".join([unquoted, *strays])


def _honest(user: str) -> str:
    query = json.loads(user.split("\n")[1])
    for number, literal in re.findall(r'^(\d+)\. (".*")$', user, re.MULTILINE):
        if query in json.loads(literal):
            return f"{number}"
    return "none"


def request_of(count: int, best: int) -> RerankRequest:
    """A request of `count` candidates, of which the one at `best`, from 0, holds the query."""
    documents = {f"id-{at}": f"document {at}" + (" has the needle" if at == best else "") for at in range(count)}
    return RerankRequest("the needle", documents, "docs")


def picks(
    handler: Handler, requests: Sequence[RerankRequest], make: Make = openai, *, timeout: float = 5.0
) -> list[Scores | BackendError]:
    """What a picker of at most 4 completions returns for `requests` from a server of `handler`."""

    async def scenario() -> list[Scores | BackendError]:
        async with answering(handler) as url, backend(f"{url}/v1", headers=HEADERS[make]) as endpoint:
            return await Picker(make(endpoint), 4).rerank(requests, timeout=timeout)

    return asyncio.run(scenario())
