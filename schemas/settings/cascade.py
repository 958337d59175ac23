"""Sections `cache` and `cursor`: cached answers, and the cursors of result pages."""

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from schemas.settings.section import Count, Seconds, Secret, Section

MIN_SECRET: Final = 16
"""Characters; a shorter secret could be guessed."""


class CacheSettings(Section):
    """The caches: of answers, of which the key `caches` of a profile chooses those its queries use, and of payloads."""

    ttl: Annotated[float, Field(gt=0, le=86_400)] = Field(
        default=300.0,
        description="Seconds that an answer is cached. The firewall checks a cached answer by the payloads that were "
        "cached with it: lower it if programs other than `rankstream index` change the classification of documents.",
    )
    exact_mib: Annotated[int, Field(ge=0)] = Field(default=64, description="MiB of the exact cache; 0: no cache.")
    semantic_mib: Annotated[int, Field(ge=0)] = Field(
        default=64, description="MiB of the semantic cache, its vectors included; 0: no cache."
    )
    payload_mib: Annotated[int, Field(ge=0)] = Field(
        default=64, description="MiB of documents' payloads, fetched again only when their points change; 0: no cache."
    )
    threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.92,
        description="Least cosine of two queries that share an answer in the semantic cache; but for fillers, their "
        "words must be the same, too.",
    )
    per_scope: Count = Field(
        default=1000, description="Answers in the semantic cache for queries that differ in text and vector only."
    )
    clock_bucket: Seconds = Field(
        default=60.0, description="Seconds of a time bucket: answers that depend on the time are shared within one."
    )
    watermark_timeout: Annotated[float, Field(gt=0, le=10)] = Field(
        default=0.25,
        description="Seconds that a query waits for the namespace's watermark; after that it bypasses the caches.",
    )


class CursorSettings(Section):
    """How cursors are signed. All replicas need the same secret."""

    signing_secret: Secret = None
    signing_secret_file: Path | None = Field(
        default=None, description="File that holds the signing secret; with no secret cursors are only checksummed."
    )

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        given = self.signing_secret
        if given is not None and len(given.get_secret_value().strip()) < MIN_SECRET:
            raise ValueError(f"signing_secret: at least {MIN_SECRET} characters are expected")
        return self
