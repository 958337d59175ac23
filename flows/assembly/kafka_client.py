"""The Kafka client that the settings name, and the groups that it belongs to."""

from operators.delivery.kafka_client import KafkaClient
from operators.delivery.kafka_python import KAFKA, Dialect, KafkaPython
from operators.delivery.librdkafka import Librdkafka
from schemas.settings import KafkaSettings


def kafka_client(settings: KafkaSettings, dialect: Dialect = KAFKA) -> KafkaClient:
    """The client of the settings' broker; what speaks another dialect than Kafka's own is kafka-python's."""
    if settings.client == "kafka-python" or dialect is not KAFKA:
        return KafkaPython(settings, dialect)
    return Librdkafka(settings)


def of_indexing(settings: KafkaSettings) -> KafkaSettings:
    """The same for the indexing flow, which is a group of its own."""
    return settings.model_copy(update={"group_id": f"{settings.group_id}-indexing"})
