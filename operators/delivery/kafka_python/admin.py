"""An admin client of the broker; kafka-python's, whichever client delivers."""

from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from operators.delivery.kafka_python.connection import KAFKA, connection, unmade
from operators.delivery.reach import reach
from schemas.errors import FatalDelivery
from schemas.settings import KafkaSettings


class Admin:
    """A context that holds the client.

    Raises FatalDelivery if no broker can be reached, or for what it does not answer or refuses.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings

    def __enter__(self) -> Any:
        reach(self._settings.bootstrap_servers)
        try:
            self._client = KafkaAdminClient(**connection(self._settings, KAFKA))
        except KafkaError as error:
            raise FatalDelivery(unmade(self._settings, error)) from error
        return self._client

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._client.close()
        if isinstance(error, KafkaError):
            raise FatalDelivery(f"{self._settings.bootstrap_servers}: {type(error).__name__}") from error
