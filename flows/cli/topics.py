"""`rankstream topics`: the topics and collections that do not exist yet."""

from flows.assembly.clients import InProcess
from flows.assembly.collections import ensure_collections
from flows.cli.output import Config, out, say
from flows.process import logs
from operators.delivery import topics as kafka_topics
from schemas.settings import load


def topics(config: Config = None) -> None:
    """Create the Kafka topics and Qdrant collections that do not exist yet.

    Collections that rankstream created get the indexes that they lack; those of other programs are left alone.
    """
    settings = load(config)
    logs.configure(settings.telemetry)
    for name in kafka_topics.create(settings.kafka):
        say(out, f"created topic {name}")
    in_process = InProcess(settings)
    ensured = ensure_collections(settings, in_process, writes=False)
    for name in ensured.created:
        say(out, f"created collection {name}")
    for name in ensured.foreign:
        left = "left alone, since rankstream did not create it (see qdrant.owned, and rankstream collections)"
        say(out, f"collection {name}: {left}")
    in_process.close()
