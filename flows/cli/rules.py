"""`rankstream rules`: put rules on their topic, list those that are there, and test which work for a query's text.

A file has one rule a line, `{"namespace": ..., "id": ..., "when": ..., "then": ...}`; a rule whose `then` is null is
removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import time
from typing import Annotated, Any, Final, Literal

import orjson
import typer

from flows.assembly.delivery import connect
from flows.assembly.query import expression_columns, rule_table
from flows.cli.config import begin
from flows.cli.ingestion import numbered_lines, read_to_ends
from flows.cli.output import Config, emit, input_file, out, say, stderr
from operators.delivery.client import KafkaClient, ProducerRecord
from operators.query.rules import Circumstances
from operators.query.ruling import decide
from schemas.errors import ConfigError, InputError
from schemas.event import json_object
from schemas.rule import MAX_RULE_BYTES, rule_key

_TIMEOUT: Final = 10.0
"""Seconds for the broker to name the ends of the topic, and for each next record."""

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

    Exit code 1 if the file has a line that is no rule: then nothing is put.
    """
    settings = begin(config)
    table, topic, keyed, refused = rule_table(settings), settings.kafka.topics.rules, list[Keyed](), list[str]()
    if action == "test" and text is None:
        raise typer.BadParameter("test needs the text of a query", param_hint="TEXT")
    if action == "put" and file is None:
        raise typer.BadParameter("put needs a file of rules", param_hint="--file")
    if topic is None and (action == "put" or file is None):
        raise ConfigError("kafka.topics.rules: not set, so there are no rules; name a compacted topic")
    found = _read_file(file, refused) if file is not None else read_topic(connect(settings.kafka), topic or "")
    for place, key, value in found:
        try:
            table.put(key, value)
            keyed.append((place, key, value))
        except InputError as error:
            refused.append(f"{place}: no rule: {error}")
    for line in refused:
        say(stderr, line, "red")
    if refused and file is not None:
        raise typer.Exit(1)
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
    """Put rules on their topic. Raises DeliveryError."""
    with closing(client.plain_producer()) as producer:
        producer.send([ProducerRecord(topic, key, value) for _, key, value in keyed])


def read_topic(client: KafkaClient, topic: str) -> Iterator[Keyed]:
    """All records of the topic up to its present end. Raises DeliveryError."""
    for each in read_to_ends(client, topic, _TIMEOUT):
        yield f"{topic}:{each.partition.partition}:{each.offset}", each.key or b"", each.value
