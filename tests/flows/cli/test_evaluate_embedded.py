"""Evaluating through the real flow, in this process: pools that it records, and recipes that were tuned."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from flows.cli.evaluate import evaluation, sources
from flows.cli.evaluate import tune as recipe_file
from flows.cli.evaluate import tune as tuning
from flows.cli.evaluate.evaluation import ReportRow, Variant
from flows.cli.rank import PoolRanker, ReadPool
from operators.evaluation.search import Wanted
from schemas.recipes import Recipe
from schemas.settings import Settings, load

pytestmark = [pytest.mark.slow, pytest.mark.weights]

TEXTS = {
    "tide": "The tide rises under the moon.",
    "bread": "Bread rises with yeast.",
    "law": "A law of motion says how bodies move.",
    "moon": "The moon moves around the earth.",
    "yeast": "Yeast is a fungus.",
}
QUERIES = {"q1": ("what makes dough grow", "bread"), "q2": ("why does the sea come in", "tide"), "q3": ("moon", "moon")}
QUIET = Console(quiet=True)


class Set:
    """Documents, queries and judgements in files, and an index for them."""

    def __init__(self, directory: Path) -> None:
        self.documents, self.queries, self.qrels = (directory / name for name in ("d.jsonl", "q.jsonl", "qrels"))
        self.index = directory / "index"
        self.index.mkdir()
        self.documents.write_bytes(b"\n".join(orjson.dumps({"id": id_, "text": TEXTS[id_]}) for id_ in TEXTS))
        asked = (orjson.dumps({"query_id": query, "text": text}) for query, (text, _) in QUERIES.items())
        self.queries.write_bytes(b"\n".join(asked))
        self.qrels.write_text("".join(f"{query} 0 {document} 1\n" for query, (_, document) in QUERIES.items()))
        self.judged = evaluation.read_judgements(self.qrels, self.queries, self.documents)

    def measured(self, settings: Settings, recipe: Recipe, runs: Path) -> ReportRow:
        """The flow's figures by this recipe, with its model."""
        with evaluation.run_flow(settings, self.documents, self.index, [recipe], QUIET) as running:
            (row,) = evaluation.measure(running, self.queries, [Variant(recipe, True)], self.judged, runs)
        return row

    def pools(self, settings: Settings, recipe: Recipe, ranker: PoolRanker) -> Sequence[ReadPool]:
        """The flow's record of it."""
        with evaluation.run_flow(settings, self.documents, self.index, [recipe], QUIET, deep=True) as running:
            return sources.record_pools(running, self.queries, recipe, self.judged, ranker, evaluation.AnswerCounts())


def test_a_tuned_recipe_runs_as_it_was_tuned(tmp_path: Path) -> None:
    """Though the profile reranks two candidates only, every candidate's rerank score is recorded: the recipe and its
    tuned form rank recorded pools as the flow ranks the queries, and the file that is written configures the flow.
    """
    mine = Set(tmp_path)
    needed = {"qdrant": {"path": str(tmp_path / "unused")}, "profiles": {"balanced": {"rerank_top": 2}}}
    settings = load(None, needed)
    ranker = PoolRanker.of(settings, None, explain=False)
    hybrid = settings.recipes["hybrid"]
    pools = mine.pools(settings, hybrid, ranker)
    assert all(len(read.pool.rerank or {}) == len(TEXTS) for read in pools)
    wanted = [Wanted("score", "alpha", None, (0.05,))]
    tuned = tuning.tune_recipe(ranker, hybrid, pools, wanted, mine.judged, tuning.Rules())
    recipe_file.write_recipes(tmp_path / "tuned.yaml", {"hybrid": tuned.recipe}, [tuned.verdict()])
    configured = load(tmp_path / "tuned.yaml", needed)
    assert configured.recipes["hybrid"].hash == tuned.recipe.hash != hybrid.hash
    for each, by in ((settings, hybrid), (configured, configured.recipes["hybrid"])):
        mine.measured(each, by, tmp_path / by.hash)
        run = [line.split()[:4] for line in (tmp_path / by.hash / "hybrid+rerank.run").read_text().splitlines()]
        offline = replace(ranker, recipe=by)
        assert run == [
            [read.pool.query.query_id, "Q0", document, str(rank)]
            for read in sorted(pools, key=lambda read: read.pool.query.query_id)
            for rank, (document, _) in enumerate(offline.rank_all(read).ranked, 1)
        ]
