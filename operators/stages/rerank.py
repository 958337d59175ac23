"""Rerank: query and candidate are read together, the candidates of many queries in one call where the reranker can.

Of the candidates that the plan has reranked, those whose score is cached are not sent. A cached verdict on all of
them, one candidate or none need no call. Candidates that the reranker could not read in time follow behind those that
it read, and the loss is noted in the query; a query of which it read none is ranked without. A reranker that reads
texts gets no blank one, for many refuse the whole call: its candidate has no score, and follows behind those that have
one. So does the candidate whose text the reranker refuses, or finds no token in. What the scores do to the order is the
stage `rank`'s; a chat model's selection, which ends the recipe, is done here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import ClassVar, Final

from typing_extensions import override

from operators.clients.model_caches import ScoreCache, VerdictCache
from operators.clients.rerankers import Reranker, RerankRequest
from operators.clients.rerankers.candidates import LEAST, Candidates, room
from operators.query.backend_answers import PartialScores, Scores, SomeScores, refused_of
from operators.query.in_flight import InFlight
from operators.ranking.content import VISIBLE, contents
from operators.ranking.run import ModelScores
from operators.runtime.batching.policy import BatchingPolicy
from operators.runtime.dispatcher import BatchKey, Bounds, Load
from operators.runtime.event_loop import EventLoopThread
from operators.runtime.stage import Batches, async_stage, sync_stage
from operators.stages.backend_stage import BackendStage
from operators.telemetry.traces import reranker_attributes
from operators.wire.message import Attributes
from schemas.document import NEIGHBOURS
from schemas.errors import BackendBadResponse, BackendError, NoTokenVectors, Reason
from schemas.pool import ScoreMeasure
from schemas.query import QueryShape

_NO_TOKEN_VECTORS: Final = (
    f"{Reason.NO_TOKEN_VECTORS}: the index keeps no token vectors of some candidates, so nothing was reranked: add"
    " token vectors to the index, or see rerank.on_the_fly"
)

_EXPLAINED: Final = {
    Reason.NO_TOKEN_VECTORS: _NO_TOKEN_VECTORS,
    Reason.NO_TERMS: f"{Reason.NO_TERMS}: the text has no token that the reranker reads, so nothing was reranked",
}
"""Why nothing is reranked though nothing failed: the order of the legs is the answer."""


@dataclass(frozen=True)
class Reranking(BackendStage[RerankRequest, Scores]):
    """One reranker's part of the work.

    `picking`: it serves the stage `llm_rerank` of recipes, otherwise the stage `rerank`. `selects`: the reranker only
    says which candidate is the best. `compares`: it judges all candidates together, and may find none of them relevant.
    `omits`: it leaves out what is irrelevant, and may leave out all; of any other that is a fault. `measure` says what
    its scores are. `max_doc_chars` cuts each document; 0 does not. `cache` is for a reranker that judges each candidate
    by itself, `verdicts` for one that compares them or leaves some out.
    """

    name: ClassVar = "rerank"
    counts: ClassVar = True

    reranker: Reranker
    bounds: Bounds
    picking: bool = False
    selects: bool = False
    compares: bool = False
    omits: bool = False
    measure: ScoreMeasure = "share"
    max_doc_chars: int = 0
    cache: ScoreCache | None = None
    verdicts: VerdictCache | None = None
    load: Load | None = None

    @cached_property
    @override
    def step(self) -> str:
        return "pick" if self.picking else self.name

    @property
    @override
    def batching(self) -> BatchingPolicy[RerankRequest, Scores]:
        # How long token vectors take that are computed on the fly doesn't follow from how many candidates there are.
        return Candidates(self.reranker.capacity, shortens=self.reranker.reads != "tokens")

    @cached_property
    def reads_tokens(self) -> bool:
        """True if its reranker needs the query's token vectors."""
        return self.reranker.reads != "text"

    def top(self, query: InFlight) -> int:
        """The number of this query's candidates that it is to read."""
        top = query.asked.picks if self.picking else query.asked.reranks
        # One candidate needs no reranker, and keeps its score.
        return top if min(len(query.outcome.candidates), top) > 1 else 0

    def ask(self, query: InFlight) -> tuple[BatchKey, RerankRequest] | None:
        """A request for the first candidates of a query that it serves and can read."""
        asked = query.asked
        text = asked.text
        top = self.top(query)
        if text is None or not top or self.unreadable(query, text) is not None:
            return None
        documents = self._documents(query, text, top)
        if len(documents) < LEAST:
            return None
        known, unread = self._known(asked.namespace, text, documents)
        if self.cache is not None or self.verdicts is not None:
            query.trace.looked_up("rerank", len(known), len(unread))
        embedding, watermark = query.retrieval.embedding, query.cache.scope.watermark
        able = query.retrieval.capabilities
        stage = query.asked.plan.recipe.reranking
        context = stage.context if stage is not None and not self.picking and able.has("dense_context") else 0.0
        neighbours = {id_: query.outcome.payloads.get(id_, {}).get(NEIGHBOURS, ()) for id_ in unread if context}
        given = text, unread, query.collection, asked.namespace, embedding, known, watermark
        seen = query.asked.access_filter
        return self.name, RerankRequest(*given, able.has("tokens"), able.exact, neighbours, context, seen)

    def unreadable(self, query: InFlight, text: str) -> Reason | None:
        """Why the reranker cannot read this query or its candidates, if it cannot."""
        lost = dict(query.outcome.degraded)
        embedding = query.retrieval.embedding
        if self.reads_tokens:
            if embedding is None:
                return lost.get("embed", Reason.NO_VECTOR)
            if not embedding.readable:
                return Reason.NO_VECTOR
            if embedding.tokens is not None and not len(embedding.tokens):
                return Reason.NO_TERMS
        if self.reranker.reads == "stored_tokens" and not query.retrieval.capabilities.has("tokens"):
            return Reason.NO_TOKEN_VECTORS
        if "fetch" in lost:
            return lost["fetch"]
        left = self._room(text)
        return Reason.TOO_LARGE if left is not None and left <= 0 else None

    @override
    async def call(
        self, batch_key: BatchKey, requests: Sequence[RerankRequest], timeout: float
    ) -> Sequence[Scores | BackendError]:
        outcomes = await self.reranker.score(requests, timeout=timeout)
        if self.cache is not None:
            for request, outcome in zip(requests, outcomes, strict=True):
                if not isinstance(outcome, BackendError):
                    refused, documents = refused_of(outcome), request.documents
                    if refused:
                        documents = {id_: text for id_, text in documents.items() if id_ not in refused}
                    self.cache.put(request.namespace, request.query, documents, outcome)
        return outcomes

    @override
    def on_result(self, query: InFlight, outcome: Scores | BackendError) -> InFlight:
        """Take over a query's outcome. That no candidate is relevant is an answer of a reranker that compares or omits.

        That some of them have no token vectors is no failure: the order of the legs is the answer, and says why. Nor is
        it one that fewer than two have a token.
        """
        if isinstance(outcome, NoTokenVectors):
            query.outcome.warnings.append(_NO_TOKEN_VECTORS)
            query.passed(self.step, len(query.outcome.candidates))
            return query
        if isinstance(outcome, PartialScores):
            read = self._read(query, outcome)
            if len(read) - len(self._without_score(query, read, outcome)) < LEAST or not outcome:
                outcome = outcome.lost
        elif isinstance(outcome, SomeScores) and len(outcome) < LEAST:
            if self.reads_tokens:
                query.passed(self.step, len(query.outcome.candidates))
                return query
            outcome = BackendBadResponse(f"{self.reranker.model}: it refused {len(outcome.refused)} documents")
        elif not isinstance(outcome, BackendError) and (left_out := self._left_out(query, outcome)):
            error = BackendBadResponse(f"{self.reranker.model}: no score for {left_out} documents")
            if len(outcome) < LEAST:
                outcome = error
            else:
                query.lose(self.name, error.reason)
        return super().on_result(query, outcome)

    def on_answer(self, query: InFlight, answer: Scores) -> None:
        picking, result = query.asked.plan.picking, query.outcome
        read = self._read(query, answer)
        if isinstance(answer, PartialScores):
            query.lose(self.name, answer.lost.reason)
        else:
            self._keep(query, answer)
        # In the candidates' order, however the reranker or a cache gave them: a result is the same to the byte.
        scores = {id_: answer[id_] for id_ in read if id_ in answer}
        unscored, model = self._without_score(query, read, answer), self.reranker.model
        result.rerank_scores = ModelScores(scores, len(read), self.selects, unscored, self.measure, model)
        if self.picking and picking is not None:
            result.pick(picking)

    @override
    def on_unasked(self, query: InFlight) -> InFlight:
        """Note why the fused order stands, if the reranker was to read the query."""
        text = query.asked.text
        reason = self.unreadable(query, text) if text is not None and self.top(query) else None
        if reason in _EXPLAINED:
            query.outcome.warnings.append(_EXPLAINED[reason])
        # A vector that the query brought itself has no token vectors, and embed warns of a script: nothing was lost.
        elif reason is not None and reason is not Reason.NO_VECTOR:
            query.lose(self.name, reason)
        return query

    def span(self, query: InFlight) -> tuple[str, Attributes]:
        own = {"gen_ai.operation.name": "rerank", "gen_ai.request.model": self.reranker.model}
        return self.name, {**own, **reranker_attributes(self.reranker.model, self.top(query), query.outcome)}

    def _known(self, namespace: str, text: str, documents: Mapping[str, str]) -> tuple[Scores, Mapping[str, str]]:
        """The scores that are cached, and the documents still to be read: none where there is a verdict on all."""
        verdict = self.verdicts.known(namespace, text, documents) if self.verdicts is not None else None
        if verdict is not None:
            return verdict, {}
        if self.cache is None:
            return {}, documents
        known = self.cache.known(namespace, text, documents)
        return known, {id_: document for id_, document in documents.items() if id_ not in known}

    @cached_property
    def _judges(self) -> bool:
        """True if a document that it was sent, and has no score, is irrelevant or gone."""
        return self.compares or self.omits or self.reads_tokens

    def _left_out(self, query: InFlight, outcome: Scores) -> int:
        """The number of documents that a reranker of all has no score of, by a fault of its own."""
        top = self.top(query)
        if self._judges or len(outcome) >= top:
            return 0
        sent = self._documents(query, query.asked.text or "", top)
        return len(sent.keys() - outcome.keys() - refused_of(outcome))

    def _read(self, query: InFlight, outcome: Scores) -> list[str]:
        """The ids of the candidates that the reranker has read, from the first on without a gap."""
        first = [each.id for each in query.outcome.candidates[: self.top(query)]]
        return first[: first.index(outcome.unread)] if isinstance(outcome, PartialScores) else first

    def _keep(self, query: InFlight, outcome: Scores) -> None:
        text = query.asked.text
        # A text that was refused may be read another time.
        if self.verdicts is None or text is None or refused_of(outcome):
            return
        documents = self._documents(query, text, self.top(query))
        if self.compares or (self.omits and len(outcome) < len(documents)):
            self.verdicts.put(query.asked.namespace, text, documents, outcome)

    def _documents(self, query: InFlight, text: str, top: int) -> dict[str, str]:
        cut, payloads = self._room(text), query.outcome.payloads
        first, blank = [each.id for each in query.outcome.candidates[:top]], self.reads_tokens
        texts = [text[:cut] for text in contents([payloads.get(id_, {}) for id_ in first])]
        return {id_: text for id_, text in zip(first, texts, strict=True) if blank or VISIBLE.search(text)}

    def _without_score(self, query: InFlight, read: Sequence[str], outcome: Scores) -> frozenset[str]:
        """Those of the first candidates that are not sent, those that the reranker refused, and those that it should
        have scored.
        """
        unscored = frozenset(read).difference(outcome)
        # Most answers have a score for each, and no text is joined a second time.
        if not unscored or not self._judges:
            return unscored
        sent = self._documents(query, query.asked.text or "", len(read))
        return frozenset(id_ for id_ in unscored if id_ not in sent or id_ in refused_of(outcome))

    def _room(self, text: str) -> int | None:
        return room(text, self.reranker.capacity.chars, self.max_doc_chars)


def rerank(step_id: str, up: Batches, stage: Reranking | None, calls: EventLoopThread) -> Batches:
    """Have the model read each query's candidates, if there is one, and rank them to the end."""
    return sync_stage("rank", async_stage(step_id, up, stage, calls), rank)


def rank(query: InFlight) -> InFlight:
    """Rank the candidates to the end, by the stages that need more than the legs gave. The order of a lookup stays as
    it was asked for.
    """
    asked, plan, outcome = query.asked, query.asked.plan, query.outcome
    if asked.shape is not QueryShape.SEARCH or not outcome.ranked:
        return query
    query.started = monotonic()
    outcome.finish(plan, asked.event.order_by, ruling=asked.ruling)
    # A page that passed over as many as were given would miss one for each that has expired.
    cursor = asked.cursor
    if cursor is not None and (cursor.continued or (query.may_lack_given and outcome.results.lacks(cursor.given))):
        outcome.results = replace(outcome.results, given=frozenset(cursor.given))
        query.continue_page(first=outcome.results.passed)
    if not plan.recipe.later:
        return query
    candidates = len(outcome.candidates)
    query.trace.child("rank", query.started, {"rankstream.candidates": candidates})
    query.passed("rank", candidates)
    return query
