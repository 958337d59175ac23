"""Settings: one YAML file, overridden by environment variables; all errors are reported at once, by path."""

from schemas.settings.backends import ChatSettings, EmbedderSettings, RerankSettings, SparseEncoderSettings
from schemas.settings.delivery import DeliverySettings, DocumentSettings, KafkaSettings, Limits
from schemas.settings.policies import FirewallSettings, IdentitySettings, PolicySettings, SourcePolicy
from schemas.settings.qdrant import QdrantSettings
from schemas.settings.ranking import Between, DecaySettings, Profile
from schemas.settings.reading import load
from schemas.settings.root import CacheSettings, Defaults, Settings, TelemetrySettings
from schemas.settings.topics import Topics
