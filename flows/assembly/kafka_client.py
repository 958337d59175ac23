"""The Kafka client that the settings name."""

from operators.delivery.broker import reach
from operators.delivery.client import KafkaClient
from operators.delivery.kafka_python import KAFKA, Dialect, KafkaPython
from operators.delivery.librdkafka import Librdkafka
from schemas.settings import KafkaSettings


def kafka_client(settings: KafkaSettings, dialect: Dialect = KAFKA) -> KafkaClient:
    """The client of the settings' broker; what speaks another dialect than Kafka's own is kafka-python's."""
    if settings.client == "kafka-python" or dialect is not KAFKA:
        return KafkaPython(settings, dialect)
    return Librdkafka(settings)


def reached(settings: KafkaSettings) -> KafkaClient:
    """The client for a command, which can't wait until there is a broker. Raises FatalDelivery if none answers."""
    reach(settings.bootstrap_servers)
    return kafka_client(settings)
