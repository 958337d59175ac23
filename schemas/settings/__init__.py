"""Settings: one YAML file, environment variables over it, every error at once and by its path."""

from schemas.settings.backends import EmbedderSettings, QdrantSettings, RerankSettings
from schemas.settings.delivery import DeliverySettings, KafkaSettings, Limits, Topics
from schemas.settings.root import Defaults, Settings, TelemetrySettings, load

__all__ = [
    "Defaults",
    "DeliverySettings",
    "EmbedderSettings",
    "KafkaSettings",
    "Limits",
    "QdrantSettings",
    "RerankSettings",
    "Settings",
    "TelemetrySettings",
    "Topics",
    "load",
]
