"""Sections `cache` and `cursor`: answers that are kept, and the pages that follow a page."""

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from schemas.settings.section import Count, Seconds, Secret, Section

MIN_SECRET: Final = 16
"""Characters: a shorter secret would be guessed."""


class CacheSettings(Section):
    """Answers that are kept; a profile says which caches its queries use."""

    ttl: Annotated[float, Field(gt=0, le=86_400)] = Field(default=300.0, description="Seconds that an answer is kept.")
    exact_mib: Annotated[int, Field(ge=0)] = Field(default=64, description="MiB of answers to the same query; 0: none.")
    semantic_mib: Annotated[int, Field(ge=0)] = Field(
        default=64, description="MiB of answers to similar queries, their vectors included; 0: none."
    )
    threshold: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.92, description="Cosine from which one query's answer serves another."
    )
    per_scope: Count = Field(default=1000, description="Queries compared with that differ in nothing but the text.")
    clock_bucket: Seconds = Field(
        default=60.0, description="Queries of one such span share answers that depend on the time."
    )
    watermark_timeout: Annotated[float, Field(gt=0, le=10)] = Field(
        default=0.25,
        description="Seconds that a query waits to know how far the index is; then the caches are passed by.",
    )


class CursorSettings(Section):
    """How cursors are signed: all replicas need the same secret."""

    signing_secret: Secret = None
    signing_secret_file: Path | None = None

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        given = self.signing_secret
        if given is not None and len(given.get_secret_value().strip()) < MIN_SECRET:
            raise ValueError(f"signing_secret: at least {MIN_SECRET} characters are expected")
        return self
