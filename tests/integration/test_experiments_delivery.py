"""Experiments on a real broker: each comparison is committed with its result, once, whatever dies in between."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from bench.kafka.broker import Broker
from operators.experiments.impression import TokenCodec
from schemas.preference import PairedRankings
from tests import qdrant_server
from tests.integration.deployment import Deployment, wait_until

QUERIES: Final = 600
SECRET: Final = "a secret of the tests"
WORDS: Final = ("lamp", "screen", "wall", "cable")


def test_each_result_has_one_comparison(broker: Broker, tmp_path: Path, topic_names: Callable[[str], str]) -> None:
    """A replica is killed while it answers. Each query has one result and one comparison of the list in that result."""
    documents = [
        {
            "id": f"d{n}",
            "title": WORDS[n % 4],
            "text": f"A {WORDS[n * 3 % 4]} and a {WORDS[n // 4 % 4]}.",
            "vector": [1, n],
        }
        for n in range(20)
    ]
    (secret := tmp_path / "secret").write_text(SECRET)
    with qdrant_server.running(tmp_path / "engine") as qdrant:
        sections: dict[str, Any] = {
            "qdrant": {"url": qdrant, "dimension": 2, "timeout": 60},
            "limits": {"timeout": 60},
            "cursor": {"signing_secret_file": str(secret)},
            "experiments": {"mixed": {"recipe": "rrf", "share": 1, "mode": "interleave"}},
        }
        with Deployment.on(broker, tmp_path, topic_names, sections) as system:
            system.settings["kafka"]["topics"]["experiments"] = topic_names("experiments")
            system.create("experiments")
            indexing = system.start("index", replica="i")
            system.produce("documents", [orjson.dumps(document) for document in documents])
            wait_until(lambda: sum(len(each.split()) for each in system.watermarks().values()) > 0)
            assert indexing.terminate() == 0
            first = system.start("run", replica="s")
            system.ask(
                [{"query_id": f"q{n}", "text": WORDS[n % 4], "vector": [n, 9], "limit": 5} for n in range(QUERIES)]
            )
            wait_until(lambda: system.records("results"))
            first.kill()
            system.start("run", replica="s")
            results = [record.value for record in system.output_records(QUERIES)]
            comparisons = [PairedRankings.model_validate_json(record.value) for record in system.records("experiments")]
    # On a busy machine a leg may be late; then neither ranking is complete, and the page is of neither.
    assert "ok" in {each["status"] for each in results} <= {"ok", "partial"}
    assert Counter(each["query_id"] for each in results) == Counter(f"q{n}" for n in range(QUERIES))
    by_query = {each.query_id: each for each in comparisons}
    assert len(by_query) == len(comparisons) == QUERIES
    read = TokenCodec(SECRET.encode()).read
    for result in results:
        tokens = [read(hit["token"]) for hit in result["results"] if "token" in hit]
        compared = by_query[result["query_id"]]
        assert [(each.id, each.side) for each in compared.page] == [(each.document_id, each.side) for each in tokens]
