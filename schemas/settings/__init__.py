"""Settings: one YAML file, environment variables over it, every error at once and by its path."""

from schemas.settings.backends import ChatSettings, EmbedderSettings, QdrantSettings, RerankSettings
from schemas.settings.delivery import DeliverySettings, KafkaSettings, Limits, Topics
from schemas.settings.ranking import Between, DecaySettings, Profile
from schemas.settings.root import Defaults, Settings, TelemetrySettings, load

__all__ = [
    "Between",
    "ChatSettings",
    "DecaySettings",
    "Defaults",
    "DeliverySettings",
    "EmbedderSettings",
    "KafkaSettings",
    "Limits",
    "Profile",
    "QdrantSettings",
    "RerankSettings",
    "Settings",
    "TelemetrySettings",
    "Topics",
    "load",
]
