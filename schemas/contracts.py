"""The contracts, generated: JSON Schema 2020-12 of events and configuration, and AsyncAPI 3.0.0 of the topics."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from schemas import headers as names
from schemas.document import DeletionEvent, DocumentEvent
from schemas.errors import DeadLetterClass
from schemas.feedback import FeedbackEvent
from schemas.fields import SCHEMA_VERSION
from schemas.pool import CandidatePool
from schemas.preference import PairedRankings, Preference
from schemas.query import QueryEvent
from schemas.result import ResultEvent
from schemas.rule import Rule
from schemas.settings import Settings, Topics

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_MODELS: Final[Mapping[str, type[BaseModel]]] = {
    "config": Settings,
    "query": QueryEvent,
    "result": ResultEvent,
    "document": DocumentEvent,
    "deletion": DeletionEvent,
    "pool": CandidatePool,
    "rule": Rule,
    "feedback": FeedbackEvent,
    "comparison": PairedRankings,
    "preference": Preference,
}

_RULES: Final = "Compacted: rules. The key is the JSON array [namespace, id]; without a value the rule is removed."

_FEEDBACK: Final = "Actions of users on results of experiments. The key is the query_id. Also events of UBI, by schema."
_COMPARISONS: Final = "Two rankings of one query, of each query in an experiment. The key is the query_id."
_PREFERENCES: Final = "What the user of one query preferred, by clicks. The key is the query_id."

_TRACE: Final = {
    "traceparent": {"type": "string", "description": "W3C Trace Context: the sender's span."},
    "tracestate": {"type": "string", "description": "W3C Trace Context: what tracing systems pass on."},
}

_WHY: Final = {
    names.TOPIC: "Topic that the message came from.",
    names.PARTITION: "Its partition, in decimal.",
    names.OFFSET: "Its offset, in decimal.",
    names.STAGE: "Stage that rejected the message.",
    names.CLASS: f"Class: one of {', '.join(DeadLetterClass)}.",
    names.MESSAGE: f"What is wrong, at most {names.MAX_MESSAGE_CHARS} characters.",
    names.TRACE_ID: "Trace of the message, in 32 hexadecimal digits; missing without one.",
    names.TIMESTAMP: "The message's timestamp in ms, if its topic refused it or it is over a day old; else missing.",
    names.REFUSED: "Why the topic refused the dead letter in an earlier form; missing if it was the first.",
}


def all_contracts() -> dict[str, Any]:
    """Every contract by its name."""
    made = {name: {"$schema": DIALECT, **model.model_json_schema()} for name, model in _MODELS.items()}
    for section in made["config"]["properties"].values():
        # A section's keys have their defaults; the section's own would repeat them, the host's name among them.
        if "$ref" in section:
            section.pop("default", None)
    made["dead-letter"] = _dead_letter()
    made["asyncapi"] = asyncapi()
    return dict(sorted(made.items()))


def asyncapi() -> dict[str, Any]:
    """All topics, who sends and who receives, and the headers."""
    topics = Topics()
    queries = "Query events. The key is free: it says what is ordered."
    documents = "Document events: upserts, patches and deletions. Key by id, so that a document's events stay in order."
    watermarks = "Compacted: how far each namespace is indexed. For rankstream itself."
    channels = {
        "queries": ("receive", topics.queries, ["query"], queries),
        "results": ("send", topics.results, ["result"], "One result a query, with the query's key."),
        "documents": ("receive", topics.documents, ["document", "deletion"], documents),
        "dead_letters": ("send", topics.dead_letters, ["dead_letter"], "Rejected messages, unchanged, and why."),
        "rules": ("receive", topics.rules or "rules", ["rule"], _RULES),
        "feedback": ("receive", topics.feedback or "feedback", ["feedback"], _FEEDBACK),
        "experiments": ("send", topics.experiments or "experiments", ["comparison"], _COMPARISONS),
        "preferences": ("send", topics.preferences or "preferences", ["preference"], _PREFERENCES),
        "watermarks": ("send", topics.watermarks, ["watermark"], watermarks),
    }
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "rankstream",
            "version": str(SCHEMA_VERSION),
            "description": "Topics have the names of the default configuration.",
        },
        "defaultContentType": "application/json",
        "channels": {
            name: {
                "address": address,
                "description": said,
                "messages": {each: {"$ref": f"#/components/messages/{each}"} for each in messages},
            }
            for name, (_, address, messages, said) in channels.items()
        },
        "operations": {
            f"{action}_{name}": {
                "action": action,
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [{"$ref": f"#/channels/{name}/messages/{each}"} for each in messages],
            }
            for name, (action, _, messages, _) in channels.items()
        },
        "components": {"messages": _messages()},
    }


def _messages() -> dict[str, Any]:
    traced = {"type": "object", "properties": _TRACE}

    def message(title: str, schema: str, headers: Mapping[str, Any] = traced) -> dict[str, Any]:
        return {
            "title": title,
            "headers": headers,
            "payload": {"schemaFormat": f"application/schema+json;version={DIALECT}", "schema": {"$ref": schema}},
        }

    return {
        "query": message("A query", "query.json"),
        "result": message("The result of a query", "result.json"),
        "document": message("A document, a change of it, or its deletion", "document.json"),
        "deletion": message("The deletion of a namespace, or of its documents that match filters", "deletion.json"),
        "rule": message("A rule", "rule.json", {"type": "object"}),
        "feedback": message("An action on a result", "feedback.json", {"type": "object"}),
        "comparison": message("Two rankings of one query", "comparison.json", {"type": "object"}),
        "preference": message("What a user preferred", "preference.json", {"type": "object"}),
        "dead_letter": {
            "title": "A rejected message",
            "headers": {"type": "object", "properties": _dead_letter()["properties"]["headers"]["properties"]},
            "payload": {"description": "The message as it came: any bytes."},
        },
        "watermark": {"title": "How far a namespace is indexed", "payload": {"description": "An internal format."}},
    }


def _dead_letter() -> dict[str, Any]:
    """A dead letter is the message as it came; what is ours about it are its headers."""
    properties = {name: {"type": "string", "description": said} for name, said in _WHY.items()}
    return {
        "$schema": DIALECT,
        "title": "DeadLetter",
        "description": "A rejected message: key and value as they came, and headers that say why.",
        "type": "object",
        "properties": {
            "key": {"description": "As it came."},
            "value": {"description": "As it came; null if the message is too large for the dead letters' topic."},
            "headers": {
                "type": "object",
                "description": "Those of the message, and these. They are named as those of Kafka Connect.",
                "properties": properties,
                "required": sorted(_WHY.keys() - {names.TRACE_ID, names.TIMESTAMP, names.REFUSED}),
            },
        },
        "required": ["headers"],
    }
