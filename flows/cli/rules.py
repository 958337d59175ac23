"""`rankstream rules`: put rules on their topic, list those that are there, and test which work for a query's text.

A file has one rule a line, `{"namespace": ..., "id": ..., "when": ..., "then": ...}`; a rule whose `then` is null is
removed. The console's page of rules has those of the topic in words, and checks and puts a rule in the same way; it is
tried by a column of the page, whose query has it: see `rules` of a query event.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import time
from typing import Annotated, Any, Final, Literal

import orjson
import typer

from flows.assembly.clients import InProcess
from flows.assembly.collections import find_any
from flows.assembly.delivery import ENDS_TIMEOUT, connect
from flows.assembly.query import expression_columns, rule_table
from flows.cli.config import begin
from flows.cli.ingestion import numbered_lines, read_topic
from flows.cli.output import Config, emit, input_file, out, say, stderr
from operators.access.filters import condition
from operators.clients.qdrant.client import Filter
from operators.delivery.client import KafkaClient, ProducerRecord
from operators.mapping.own_names import OwnNames
from operators.query.rules import Circumstances, CompiledRule, RuleTable
from operators.query.ruling import decide
from operators.query.zero_results import suggest
from schemas.document import NAMESPACE
from schemas.errors import BackendError, ConfigError, DeliveryError, FatalDelivery, InputError, invalid
from schemas.event import json_object
from schemas.fields import Strict
from schemas.filters import Eq, Exists, FieldFilter
from schemas.rule import EVERYWHERE, MAX_RULE_BYTES, rule_key
from schemas.settings import Settings

Keyed = tuple[str, bytes, bytes | None]
"""A place for messages, and the key and the value of a rule's message."""


def rules(
    action: Annotated[Literal["put", "list", "test"], typer.Argument(help="What to do.")],
    text: Annotated[str | None, typer.Argument(help="For test: the query's text.")] = None,
    config: Config = None,
    file: Annotated[
        Path | None, input_file("File of rules, one JSON object a line, in place of the topic.", "--file", once=True)
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="Namespace of the query, or of the listed rules.")] = None,
    source: Annotated[str | None, typer.Option(help="For test: the query's source.")] = None,
    lang: Annotated[str | None, typer.Option(help="For test: the query's language.")] = None,
) -> None:
    """Put the rules of a file on the topic, list those that are there, or test which work for a text.

    It warns of fields and documents that the index lacks. Exit code 1 if a line of the file is no rule: nothing is put.
    """
    settings, refused = begin(config), list[str]()
    topic = settings.kafka.topics.rules
    if action == "test" and text is None:
        raise typer.BadParameter("test needs the text of a query", param_hint="TEXT")
    if action == "put" and file is None:
        raise typer.BadParameter("put needs a file of rules", param_hint="--file")
    if topic is None and (action == "put" or file is None):
        raise ConfigError("kafka.topics.rules: not set, so there are no rules; name a compacted topic")
    found = _read_file(file, refused) if file is not None else _read_rules(connect(settings.kafka), topic or "")
    table, keyed = _fill_table(settings, found, refused)
    for line in refused:
        say(stderr, line, "red")
    if refused and file is not None:
        raise typer.Exit(1)
    own = namespace or (settings.defaults.namespace if action == "test" else None)
    for warning in find_absent(settings, [each for each in table if own is None or each[0] in {own, EVERYWHERE}]):
        say(stderr, warning, "yellow")
    if action == "put":
        put_rules(connect(settings.kafka), topic or "", keyed)
        say(out, f"{len(keyed)} rules were put")
    elif action == "list":
        for name, each in table:
            if namespace in {None, name}:
                emit({"namespace": name, "id": each.id, **orjson.loads(each.value)})
    elif sets := table.of(namespace if namespace is not None else settings.defaults.namespace):
        ruling = decide(sets, text, Circumstances(source, time(), lang), columns=expression_columns(settings))
        ruling = ruling.expand(left := ruling.take_away())
        for each in ruling.rules:
            emit({"id": each.id, "then": orjson.loads(each.value)["then"]})
        for synonym in ruling.expansions:
            emit({"id": synonym.rule, "synonym": synonym.text, "weight": synonym.weight})
        emit({"text": left})


def find_absent(settings: Settings, rules: Iterable[tuple[str, CompiledRule]]) -> Iterator[str]:
    """The fields and documents that rules of these namespaces name, and that none of their documents has or is.

    Nothing is said of an index that can't be read.
    """
    own, path = OwnNames(settings.documents.columns).own, settings.qdrant.path
    named = defaultdict[tuple[str, FieldFilter], list[str]](list)
    for namespace, rule in rules:
        for each in rule.named:
            named[namespace, each].append(rule.id)
    if path is not None and not path.expanduser().is_dir():
        return
    with suppress(BackendError, ConfigError, TimeoutError), closing(InProcess(settings)) as in_process:
        found = find_any(settings, in_process, (_where(*each) for each in islice(named, _LOOKED_UP)))
        for ((namespace, wanted), ids), there in zip(named.items(), found, strict=False):
            if not there and isinstance(wanted, Exists):
                near = suggest(own(wanted.field), [*map(own, settings.qdrant.indexes)])
                yield f"rules of {namespace}: {', '.join(ids)}: no document has the field `{own(wanted.field)}`{near}"
            elif not there:
                yield f"rules of {namespace}: {', '.join(ids)}: no document is `{wanted.value}`"


def _where(namespace: str, wanted: FieldFilter) -> Filter:
    within = [Eq(field=NAMESPACE, op="eq", value=namespace)] if namespace != EVERYWHERE else []
    return {"must": [*map(condition, (*within, wanted))]}


def _fill_table(settings: Settings, found: Iterable[Keyed], refused: list[str]) -> tuple[RuleTable, list[Keyed]]:
    """The table of the rules, and these; what is wrong with those that are none goes to `refused`."""
    table, keyed = rule_table(settings), list[Keyed]()
    for place, key, value in found:
        try:
            table.put(key, value)
            keyed.append((place, key, value))
        except InputError as error:
            refused.append(f"{place}: no rule: {error}")
    return table, keyed


def _read_file(path: Path, refused: list[str]) -> Iterator[Keyed]:
    """The rules of a file; what is wrong with a line that is no JSON object goes to `refused`."""
    for number, line in numbered_lines(path):
        place = f"{path}: line {number}"
        try:
            yield place, *to_rule_record(json_object(line, 2 * MAX_RULE_BYTES))
        except InputError as error:
            refused.append(f"{place}: no rule: {error}")


def to_rule_record(said: Mapping[str, Any]) -> tuple[bytes, bytes | None]:
    """The key and the value of a rule that is written as one object; no value where its `then` is null."""
    rule = {name: value for name, value in said.items() if name not in {"namespace", "id"}}
    key = rule_key(said.get("namespace"), said.get("id"))
    return key, orjson.dumps(rule) if rule.get("then", rule) is not None else None


def put_rules(client: KafkaClient, topic: str, keyed: Sequence[Keyed]) -> None:
    """Put rules on their topic. Raises DeliveryError, also if it does not exist: brokers would make it as any other."""
    client.tail(topic).close()
    with closing(client.plain_producer()) as producer:
        producer.send([ProducerRecord(topic, key, value) for _, key, value in keyed])


def _read_rules(client: KafkaClient, topic: str) -> Iterator[Keyed]:
    """All records of the topic up to its present end. Raises DeliveryError."""
    for each in read_topic(client, topic, ENDS_TIMEOUT):
        yield f"{topic}:{each.partition.partition}:{each.offset}", each.key or b"", each.value


_LOOKED_UP: Final = 500
"""Fields and documents that are looked up: a topic may have many rules."""

_REFUSED: Final = 20
"""Records of the topic that are no rule, of which the page says why, at most."""


class WrittenRule(Strict):
    """A rule as it is written on the page: its JSON, without namespace and id."""

    namespace: str
    id: str
    text: str

    def read(self, settings: Settings) -> tuple[bytes, bytes | None]:
        """The key and the value of its message. Raises InputError for what is no rule."""
        said = json_object(self.text.encode(), MAX_RULE_BYTES)
        record = to_rule_record({**said, "namespace": self.namespace, "id": self.id})
        rule_table(settings).put(*record)
        return record


@dataclass(frozen=True)
class RuleBook:
    """The rules of these settings' topic."""

    settings: Settings

    def to_view(self) -> dict[str, Any]:
        """Each rule as it is written, and in words; records that are no rule with the reason. Raises DeliveryError."""
        topic, refused = self.settings.kafka.topics.rules, list[str]()
        found = _read_rules(connect(self.settings.kafka), topic) if topic is not None else ()
        table, _ = _fill_table(self.settings, found, refused)
        rules = [{"namespace": name, "id": each.id, **describe_rule(orjson.loads(each.value))} for name, each in table]
        return {"topic": topic, "rules": rules, "refused": refused[-_REFUSED:]}

    def check(self, written: WrittenRule) -> dict[str, Any]:
        """The rule as it is written, and in words. Raises InputError for what is no rule."""
        _, value = written.read(self.settings)
        if value is None:
            raise invalid("then", "effects are expected", None)
        return describe_rule(orjson.loads(value))

    def put(self, written: WrittenRule) -> dict[str, Any]:
        """Put the rule on the topic, or remove it if its `then` is null. Raises InputError and DeliveryError."""
        topic = self.settings.kafka.topics.rules
        if topic is None:
            raise invalid("kafka.topics.rules", "not set, so there are no rules; name a compacted topic", None)
        key, value = written.read(self.settings)
        try:
            put_rules(connect(self.settings.kafka), topic, [("", key, value)])
        except DeliveryError as error:
            why = f"{error}; whoever may write to {topic} can put it in a file: rankstream rules put --file rules.jsonl"
            raise FatalDelivery(why) from error
        return {"removed": value is None}


def describe_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A valid rule, its conditions, and its effects, in words."""
    return {"rule": rule, "when": [*_conditions(rule.get("when") or {})], "then": [*_effects(rule["then"])]}


def _conditions(when: Mapping[str, Any]) -> Iterator[str]:
    phrases = {"exact": "the text is “{}”", "contains": "the text has “{}”", "sources": "the source is {}"}
    phrases |= {"languages": "the language is {}", "from": "from {}", "until": "until {}"}
    said = {name: value for name, value in when.items() if value is not None}
    yield from (phrases[name].format(" or ".join(_several(value))) for name, value in said.items())
    if not said:
        yield "every search"


def _effects(then: Mapping[str, Any]) -> Iterator[str]:
    if synonyms := then.get("synonyms"):
        one_way = f"{', '.join(synonyms.get('from') or ())} → {', '.join(synonyms.get('to') or ())}"
        yield f"synonyms: {' = '.join(synonyms['words']) if synonyms.get('words') else one_way}"
    yield from (f"pin {pin['id']} at {pin['position']}" for pin in then.get("pin") or ())
    if bury := then.get("bury"):
        yield f"bury {' and '.join([*map(str, bury.get('ids') or ()), *_filters(bury)])}"
    if boost := then.get("boost"):
        yield f"boost by {boost.get('field') or ' and '.join(_filters(boost))}, weight {boost.get('weight', 0.5)}"
    if rewrite := then.get("rewrite"):
        order = rewrite.get("order_by")
        by = (order.get("field") or f"distance in {order['geo_distance']['field']}") if order else None
        orders = [f"order by {by}, {order.get('direction', 'asc')}"] if order else []
        yield f"in place of the words: {' and '.join([*_filters(rewrite), *orders])}"


def _filters(effect: Mapping[str, Any]) -> Sequence[str]:
    return [*map(put_into_words, effect.get("filters") or ())]


def put_into_words(condition: Any) -> str:
    """A filter in words."""
    if isinstance(condition, Mapping) and "field" in condition:
        return f"{condition['field']} {condition.get('op')} {', '.join(_several(condition.get('value')))}"
    return "a group of filters"


def _several(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [f"{name} {each}" for name, each in value.items()]
    return [*map(str, value if isinstance(value, list) else [value])]
