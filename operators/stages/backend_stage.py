"""The common base of the stages that ask a backend for each query.

The stage sends the query's request, takes over the answer, notes a loss in the query, and records the step for
results with `debug` and the span for the trace. A stage whose backend is not configured is not built.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from time import monotonic
from typing import Any, ClassVar, TypeVar

from opentelemetry.trace import SpanKind
from typing_extensions import override

from operators.query.in_flight import InFlight
from operators.runtime.batching.policy import Outcome, Request
from operators.runtime.dispatcher import AsyncStage, BatchKey
from operators.wire.message import Attributes
from schemas.errors import BackendError


class QueryStage(AsyncStage[Request, Outcome]):
    """An async stage for queries: each has until its deadline, and its clock starts with its request."""

    @override
    def deadline(self, item: InFlight) -> float:
        return item.deadline

    def request(self, item: InFlight) -> tuple[BatchKey, Request] | None:
        item.started = monotonic()
        return self.ask(item)

    @abstractmethod
    def ask(self, query: InFlight) -> tuple[BatchKey, Request] | None:
        """The query's batch key and its request, if it needs one; otherwise it goes on at once."""

    @override
    def around(self, items: Sequence[InFlight]) -> AbstractContextManager[Any]:
        """The span of the call, if one of the queries is traced; the call's requests hand it on."""
        traces = [each.trace for each in items if each.trace.recording]
        return traces[0].calling(*self.call_span(items[0]), traces) if traces else nullcontext()

    def call_span(self, query: InFlight) -> tuple[str, Attributes]:  # noqa: ARG002  for stages with attributes
        """The name and the attributes of the span of a call that carries this query."""
        return self.step, {}


class BackendStage(QueryStage[Request, Outcome]):
    """The request of a query to one backend, and the use of the answer.

    `name` is the stage's name in the losses of results, `step` its name among the steps of the query.
    `counts`: the number of candidates after the step is of interest.
    """

    name: ClassVar[str]
    counts: ClassVar[bool] = False

    @property
    def step(self) -> str:
        return self.name

    @abstractmethod
    def on_answer(self, query: InFlight, answer: Outcome) -> None:
        """Take over the backend's answer. On the worker's thread."""

    @abstractmethod
    def span(self, query: InFlight) -> tuple[str, Attributes]:
        """The name and the attributes of the query's span."""

    def on_result(self, query: InFlight, outcome: Outcome | BackendError) -> InFlight:
        error = None
        if isinstance(outcome, BackendError):
            error = outcome.reason
            query.lose(self.name, error)
        else:
            self.on_answer(query, outcome)
        query.passed(self.step, len(query.outcome.candidates) if self.counts else None)
        if query.trace.recording:
            name, attributes = self.span(query)
            query.trace.child(name, query.started, attributes, error=error, kind=SpanKind.CLIENT)
        return query


def model_attributes(operation: str, model: str, provider: str) -> Attributes:
    """Attributes of the span of a model's call, by OpenTelemetry's conventions for generative AI."""
    return {"gen_ai.operation.name": operation, "gen_ai.provider.name": provider, "gen_ai.request.model": model}


def qdrant_attributes(operation: str, collection: str) -> Attributes:
    """Attributes of the span of a request to Qdrant, by OpenTelemetry's conventions for databases."""
    return {"db.system.name": "qdrant", "db.operation.name": operation, "db.collection.name": collection}


Value = TypeVar("Value")


class PointStage(BackendStage[list[str], Mapping[str, Value]]):
    """A stage that reads points of a collection by their ids, those of many queries in one request.

    An outcome has each point's content, by its id; the batch key is the stage's name and the target.
    """

    @abstractmethod
    async def read(self, target: Any, ids: Sequence[str], timeout: float) -> Mapping[str, Value]:
        """The values of these points, as far as they are there, within `timeout` seconds. Raises BackendError."""

    def target(self, query: InFlight) -> Any:
        """The collection, with whatever else queries must have in common to be read for together."""
        return query.collection

    @abstractmethod
    def missing(self, query: InFlight) -> list[str]:
        """The ids of the points that the query needs."""

    def ask(self, query: InFlight) -> tuple[BatchKey, list[str]] | None:
        missing = self.missing(query)
        return ((self.name, self.target(query)), missing) if missing else None

    async def call(
        self, batch_key: BatchKey, requests: Sequence[list[str]], timeout: float
    ) -> list[Mapping[str, Value]]:
        assert isinstance(batch_key, tuple)
        ids = list(dict.fromkeys(chain.from_iterable(requests)))
        found = await self.read(batch_key[1], ids, timeout)
        return [{id_: found[id_] for id_ in wanted if id_ in found} for wanted in requests]

    def span(self, query: InFlight) -> tuple[str, Attributes]:
        return f"retrieve {query.collection}", qdrant_attributes("retrieve", query.collection)
