"""A console of a real flow in this process, on a shop's catalogue in six languages and hostile documents."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from opentelemetry.sdk.trace import TracerProvider
from rich.console import Console as RichConsole

from flows.cli.console.judgements import JudgementFile
from flows.cli.console.overview import Overview
from flows.cli.console.workbench import Configuration, Workbench, searcher
from flows.cli.ingestion import index_once, read_jsonl
from flows.process.embedded import embedded_settings, start_with_settings
from schemas.settings import load
from tests.flows.cli.browsing import WITHIN, Served, serving

STORE: Final = Path(__file__).parents[2] / "data" / "store"

ATTACK: Final = "<script>window.hit=1</script><img src=x onerror=window.hit=1>"
HOSTILE: Final[list[dict[str, Any]]] = [
    {
        "id": f"evil-{number}\"'><script>window.hit=1</script>",
        "namespace": "evil",
        "title": f"{ATTACK} harbor {number}",
        "text": f"harbor {ATTACK} javascript:window.hit=1 {'x' * number}",
        "<img src=x onerror=window.hit=1>": ATTACK,
        "lang": ATTACK,
    }
    for number in range(3)
]

_FIELDS: Final = {"title": 2, "text": 1, "sku": 2, "mpn": 2, "isbn": 2, "ean": 2, "brand": 1, "category": 1}
_OVERRIDES: Final[dict[str, Any]] = {"embedder": {"kind": "none"}, "rerank": {"kind": "none"}}


@contextmanager
def shop(directory: Path, models: Mapping[str, Any] = _OVERRIDES) -> Iterator[Served]:
    """A served console with the shop's query set and judgements, and another configuration beside the flow's."""
    for name in ("qrels.txt", "queries.jsonl"):
        shutil.copy(STORE / name, directory / name)
    documents = [*read_jsonl(STORE / "documents.jsonl"), *HOSTILE]
    index = directory / "index"
    qdrant = {"path": str(index), "timeout": WITHIN, "search_fields": _FIELDS, "vectors": {"fuzzy": "fuzzy"}}
    kafka = {"topics": {name: name for name in ("rules", "experiments", "feedback", "preferences")}}
    # No query of a task is in one of these: each has its share of a namespace that has no queries.
    about = {"recipe": "keyword", "share": 1, "mode": "interleave", "namespaces": ["help"]}
    own = {"kafka": kafka, "cursor": {"signing_secret": "s" * 40}, "experiments": {"new": about, "unasked": about}}
    with start_with_settings(embedded_settings(index, {**models, "qdrant": qdrant, **own})) as flow:
        index_once(flow, "shop", lambda: enumerate(documents, 1), "1", index, RichConsole(quiet=True))
        with flow.searching():
            settings = flow.settings
            ask = searcher(settings.kafka, TracerProvider().get_tracer("console"))
            other = load(None, {"qdrant": {"url": "http://127.0.0.1:9"}, "recipes": {"plain": {"stages": ["rrf"]}}})
            bench = Workbench(
                {"shop": Configuration.of("shop", settings, ask), "other": Configuration.of("other", other, None)},
                JudgementFile(directory / "qrels.txt", directory / "queries.jsonl"),
                Overview(settings, flow.in_process, own_broker=True),
            )
            with serving(bench) as served:
                yield served
