"""Token vectors of 4 bits a component against those of 16: the same ranking, in a fraction of the bytes."""

from itertools import islice
from pathlib import Path

import pytest

from flows.cli.demo import docstrings
from operators.clients.local.minilm import MiniLM
from operators.clients.qdrant_edge.shards import Engine
from operators.clients.rerankers import RerankRequest
from operators.clients.rerankers.late_interaction import LateInteraction
from operators.query.backend_answers import Scores
from schemas.errors import BackendError
from tests.operators.clients.rerankers.token_index import Datatype, Document, Index, identity
from tests.tiers import sized

pytestmark = pytest.mark.weights

QUERIES = (
    "parse a date from a string",
    "run a command and capture its output",
    "read the lines of a compressed file",
    "wait until a thread has ended",
    "random numbers of a normal distribution",
    "compare two files",
    "escape text for HTML",
    "the largest elements of a list",
    "copy a directory with everything in it",
    "remember the results of a function",
    "send a mail over an encrypted connection",
    "how much memory does an object take",
    "split a path into its parts",
    "round a decimal number",
    "a queue for several processes",
    "the day of the week of a date",
    "call a function when the program exits",
    "decode base64",
    "list the names in an archive",
    "log messages to a file that is rotated",
)
DATATYPES: tuple[Datatype, ...] = ("turbo4", "float16")
DEPTH = 10
DOCUMENTS = sized(120, nightly=300)
QUANTUM = 0.02
"""The distance of a score from that of 16 bits; scores lie within -1 and 1."""


async def ranked(directory: Path, minilm: MiniLM) -> dict[str, list[Scores]]:
    """The scores of every document for each query, by datatype, from the same token vectors."""
    texts = [f"{event['title']}\n{event['text']}" for event in islice(docstrings(), 0, 20 * DOCUMENTS, 15)][:DOCUMENTS]
    embeddings = await minilm.embed(texts, purpose="document", timeout=300)
    asked = await minilm.embed(QUERIES, purpose="query", timeout=300)
    documents = [Document(identity(number), each.tokens) for number, each in enumerate(embeddings, 1)]
    found: dict[str, list[Scores]] = {}
    with Engine(directory) as engine:
        index = Index(engine)
        for datatype in DATATYPES:
            await index.create(datatype, datatype=datatype)
            await index.write(documents, datatype)
            unread = {document.id: "text" for document in documents}
            requests = [RerankRequest("words", unread, datatype, "public", each) for each in asked]
            outcomes = await LateInteraction(index.client, "m").score(requests, timeout=60)
            found[datatype] = [outcome for outcome in outcomes if not isinstance(outcome, BackendError)]
    return found


async def test_compact_token_vectors_rank_as_those_of_16_bits(tmp_path: Path) -> None:
    """On real texts: of twenty questions at most one has another best document, nine of ten of the first ten are the
    same, and no score is off by more than a fiftieth.
    """
    found = await ranked(tmp_path / "engine", MiniLM(tmp_path / "minilm"))
    assert [len(scores) for scores in found.values()] == [len(QUERIES)] * 2
    best = shared = 0
    for compact, exact in zip(found["turbo4"], found["float16"], strict=True):
        assert compact == pytest.approx(exact, abs=QUANTUM)
        # Seen from the other side: equal scores would be no compression at all.
        assert compact != exact
        first, second = (sorted(scores, key=scores.__getitem__, reverse=True)[:DEPTH] for scores in (compact, exact))
        best += first[0] == second[0]
        shared += len({*first} & {*second})
    assert best >= len(QUERIES) - 1
    assert shared >= 0.9 * DEPTH * len(QUERIES)
