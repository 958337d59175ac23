"""`rankstream topics`: the topics and collections that do not exist yet."""

from flows.assembly.clients import InProcess
from flows.assembly.indexing import ensure_collections
from flows.cli.output import Config, out
from flows.process import logs
from operators.delivery import topics as kafka_topics
from schemas.settings import load


def topics(config: Config = None) -> None:
    """Create the Kafka topics and Qdrant collections that do not exist yet."""
    settings = load(config)
    logs.configure(settings.telemetry)
    for name in kafka_topics.create(settings.kafka):
        out.print(f"created topic {name}")
    in_process = InProcess(settings)
    for name in ensure_collections(settings, in_process):
        out.print(f"created collection {name}")
    in_process.close()
