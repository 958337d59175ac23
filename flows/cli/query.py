"""`rankstream query`, and the client by which commands ask: query events out, and their results or dead letters back.

The client is the smallest producing service there can be; `query`, `console`, `demo` and `evaluate` use it.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final, Self

import orjson
import typer
from opentelemetry import propagate
from opentelemetry.trace import NoOpTracer, SpanKind, Tracer

from flows.assembly.delivery import ENDS_TIMEOUT, connect
from flows.cli.config import begin
from flows.cli.output import SHOWN, UNANSWERED, Config, Json, hint_of_nothing, out, print_result, say
from operators.delivery.client import KafkaClient, PlainProducer, ProducerRecord, RecordRefused, TopicReader
from operators.delivery.replay import DeadLetter
from operators.mapping.formats import UNREADABLE, read_value
from operators.mapping.own_names import OwnNames
from operators.telemetry.export import tracer_provider
from schemas.document import INDEXED, TIMES
from schemas.errors import FatalDelivery
from schemas.filters import INDEXABLE
from schemas.query import MAX_GROUP_SIZE, MAX_LIMIT
from schemas.settings import Settings, Topics
from schemas.settings.delivery import LISTS

MAX_UNANSWERED: Final = 64
"""Queries sent and not yet answered: a broker that drops unread messages must not be given too many."""

_POLL: Final = 0.02

Event = Mapping[str, Any]
ResultEnds = Mapping[int, int]
"""By partition of the results topic: the offset after the last record, committed or not."""


class NoAnswer(FatalDelivery):
    """No result came in time."""


@dataclass
class QueryClient:
    """Asks queries and reads their results. Several clients may do so at a time.

    A refusal is a dead letter and a result, written in one transaction, before its end makes either visible. So the
    client reads the results topic up to `read_ends`, the end that the topic had when the dead letter was seen: a result
    that has not come by then does not exist.
    """

    producer: PlainProducer
    reader: TopicReader
    letters: TopicReader
    read_ends: Callable[[], ResultEnds]
    queries: str
    tracer: Tracer

    @classmethod
    @contextmanager
    def connect(cls, client: KafkaClient, topics: Topics, tracer: Tracer | None = None) -> Iterator[Self]:
        """A query client that reads from the present end of results and dead letters.

        Raises DeliveryError, also if a topic doesn't exist: a producer would wait for it.
        """
        client.tail(topics.queries).close()
        with (
            closing(client.bounded_reader(topics.results, from_end=True)) as reader,
            closing(client.bounded_reader(topics.dead_letters, from_end=True)) as letters,
            closing(client.plain_producer()) as producer,
        ):

            def read_ends() -> ResultEnds:
                with closing(client.tail(topics.results)) as tail:
                    return tail.ends(ENDS_TIMEOUT)

            yield cls(producer, reader, letters, read_ends, topics.queries, tracer or NoOpTracer())

    def ask(self, events: Iterable[Event], timeout: float, most: int = MAX_UNANSWERED) -> Iterator[dict[str, Any]]:
        """Send the events, at most `most` unanswered at a time, and yield each result, or `refusal(...)`, as it comes.

        The events' `query_id`s must differ. Raises NoAnswer if no result came for `timeout` seconds, FatalDelivery for
        a query that is too large for its topic, and RetriableDelivery if the broker doesn't answer.
        """
        waiting: set[str] = set()
        rest = iter(events)
        letters: dict[str, tuple[ResultEnds, dict[str, Any]]] = {}
        heard = time.monotonic()
        while True:
            if sent := list(islice(rest, most - len(waiting))):
                self._send(sent)
                waiting.update(event["query_id"] for event in sent)
            if not waiting:
                return
            # Another's open transaction can hide the results: the dead letter is the answer when the time is over.
            late = time.monotonic() - heard > timeout
            results = list(self._results())
            alone = [letter for ends, letter in letters.values() if late or self._has_read(ends)]
            # Where there are both, the result is the answer.
            for result in (*results, *alone):
                # Others may be answered in envelopes.
                if (query_id := result.get("query_id")) in waiting:
                    waiting.remove(query_id)
                    letters.pop(query_id, None)
                    heard = time.monotonic()
                    yield result
            if refused := [letter for letter in self._refusals() if letter["query_id"] in waiting]:
                ends = self.read_ends()
                for letter in refused:
                    letters.setdefault(letter["query_id"], (ends, letter))
            if waiting and not letters and time.monotonic() - heard > timeout:
                raise NoAnswer(f"no answer to {len(waiting)} queries in {timeout:g} s: is the search flow running?")

    def _has_read(self, ends: ResultEnds) -> bool:
        positions = self.reader.positions()
        return all(positions.get(partition, 0) >= end for partition, end in ends.items())

    def _send(self, events: Sequence[Event]) -> None:
        try:
            self.producer.send([self._record(event) for event in events])
        except RecordRefused as error:
            raise FatalDelivery(f"{self.queries}: a query {error.refusal.why}") from error

    def _record(self, event: Event) -> ProducerRecord:
        with self.tracer.start_as_current_span(f"send {self.queries}", kind=SpanKind.PRODUCER):
            carrier: dict[str, str] = {}
            propagate.inject(carrier)
        headers = tuple((name, value.encode()) for name, value in carrier.items())
        return ProducerRecord(self.queries, event["query_id"].encode(), orjson.dumps(event), headers)

    def _results(self) -> Iterator[dict[str, Any]]:
        return (orjson.loads(record.value) for record in self.reader.poll(_POLL) if record.value is not None)

    def _refusals(self) -> Iterator[dict[str, Any]]:
        for record in self.letters.poll(0.0):
            letter = DeadLetter.of_record(record.key, record.value, record.headers or (), 0)
            if letter is not None and letter.position.topic == self.queries and letter.key is not None:
                yield refusal(letter.key.decode("utf-8", "replace"), letter.kind, letter.message)


def refusal(query_id: str, kind: str, reason: str) -> dict[str, Any]:
    """The refusal of a query whose answer is a dead letter, in the shape of a result."""
    nothing: dict[str, list[Any]] = {"results": [], "legs": [], "degraded": [], "warnings": []}
    error = {"class": kind, "field": None, "reason": reason}
    return {"query_id": query_id, "status": "invalid", **nothing, "total": 0, "next_cursor": None, "error": error}


EXAMPLE: Final = '{"field":"price","op":"range","value":{"lt":50}}'
"""A filter as a command takes it."""


_READ_AS: Final = {"bool": "boolean", "datetime": "iso_utc"}
"""Type of an index -> the format of a value, unless the field's column has another."""


class FilterOption(dict[str, Any]):
    """A filter of a query event, as it was given."""

    def read(self, _: Settings) -> dict[str, Any]:
        """The filter as the flow takes it."""
        return self


class _Equality(FilterOption):
    """FIELD=VALUE: the value is a text. The field is written as in the documents: a name of any characters."""

    def read(self, settings: Settings) -> dict[str, Any]:
        """The filter with a value of the type of the field's index, read as those of the field's column are."""
        documents, text = settings.documents, self["value"]
        field = OwnNames(documents.columns).read(self)["field"]
        own = "datetime" if field in TIMES else "keyword" if field in INDEXED else ""
        kind = settings.qdrant.indexes.get(field, own)
        form, value = documents.formats.get(field, _READ_AS.get(kind)), text
        own_reader = [partial(read_value, form)] if form is not None and form not in LISTS else []
        readers: list[Callable[[str], Any]] = [orjson.loads, *own_reader]
        for read in readers:
            with suppress(*UNREADABLE):
                value = read(text)
        if kind == "datetime":
            return {**self, "op": "date_range", "value": {"gte": value, "lte": value}}
        return {**self, "value": text if kind == "keyword" and not isinstance(value, str) else value}


def parse_condition(text: str) -> FilterOption:
    """A JSON object as in a query event, or FIELD=VALUE, to be read. Raises typer.BadParameter."""
    if text.lstrip().startswith("{"):
        return FilterOption(_parse_object(text))
    field, equals, value = text.partition("=")
    if not (field and equals):
        raise typer.BadParameter(f"{text!r} is neither FIELD=VALUE nor a JSON object, such as {EXAMPLE}")
    path = field if INDEXABLE.fullmatch(field.removesuffix("[]")) else f'"{field}"'
    return _Equality(field=path, op="eq", value=value)


def _parse_object(text: str) -> dict[str, Any]:
    try:
        read = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise typer.BadParameter(f"not JSON: {error.msg}") from None
    if not isinstance(read, dict):
        raise typer.BadParameter(f"{text!r} is no JSON object")
    return read


def filter_option(said: str) -> Any:
    """The option --filter of a command, with its help."""
    return typer.Option("--filter", parser=parse_condition, metavar="FIELD=VALUE", help=said)


def query(
    text: Annotated[
        str | None, typer.Argument(help="Search text; it may be a keyword expression. None: a lookup by filters.")
    ] = None,
    config: Config = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace (tenant) to search. Default: defaults.namespace.")
    ] = None,
    filters: Annotated[
        list[FilterOption] | None,
        filter_option(
            f"Condition, with the value as in the documents, or a filter as JSON, such as '{EXAMPLE}'; may be repeated:"
            " all must hold."
        ),
    ] = None,
    like: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Document that results should be like; may be repeated."),
    ] = None,
    profile: Annotated[str | None, typer.Option(help="fast, balanced, deep, or a configured profile.")] = None,
    recipe: Annotated[str | None, typer.Option(help="Recipe that ranks the results. Default: the profile's.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_LIMIT, help="Number of results.")] = 10,
    group_by: Annotated[
        str | None, typer.Option(metavar="FIELD", help="One result for each value of this indexed field.")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(min=1, max=MAX_GROUP_SIZE, help="Documents of each group that are printed.")
    ] = None,
    cursor: Annotated[
        str | None, typer.Option("--more", metavar="CURSOR", help="Cursor of an answer: print its next page.")
    ] = None,
    further: Annotated[
        dict[str, Any] | None,
        typer.Option(
            "--event",
            parser=_parse_object,
            metavar="JSON",
            help="""Further fields of the query event, such as '{"facets":[{"field":"brand"}]}'.""",
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Print how each score came about.")] = False,
    record: Annotated[
        bool,
        typer.Option("--record", help="With --json: print the candidate pool, too, for `rank`."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Print the stages that the query passed, with times.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, max=3600, help="Seconds to wait for the result.")] = 30.0,
    as_json: Json = False,
) -> None:
    """Send one query to Kafka, wait for its result, and print it.

    Exit code 1 if the query is refused, or if no leg could be searched.
    """
    if record and not as_json:
        raise typer.BadParameter("the pool is printed with --json", param_hint="--record")
    settings = begin(config)
    event: dict[str, Any] = {"query_id": f"cli-{uuid.uuid4()}", "limit": limit}
    given: dict[str, Any] = {"text": text, "namespace": namespace}
    given |= {"filters": [each.read(settings) for each in filters] if filters else None}
    given |= {"like": {"ids": like} if like else None}
    given |= {"profile": profile, "recipe": recipe, "group_by": group_by, "group_size": group_size, "cursor": cursor}
    given |= {"explain": explain or None, "record": record or None, "debug": debug or None}
    given |= {"return": None if as_json else SHOWN}
    event |= {name: value for name, value in given.items() if value is not None} | (further or {})
    kafka, tracer = settings.kafka, tracer_provider().get_tracer("rankstream.query")
    with QueryClient.connect(connect(kafka), kafka.topics, tracer) as query_client:
        [result] = query_client.ask([event], timeout)
    print_result(result, text or "", as_json, settings.documents.columns.get("title", "title"))
    if not as_json:
        hint_of_nothing(result, namespace or settings.defaults.namespace, filtered=bool(filters))
    if not as_json and result["next_cursor"] is not None:
        say(out, f"further results: --more {result['next_cursor']}")
    raise typer.Exit(1 if result["status"] in UNANSWERED else 0)
