"""Section `qdrant.create`: how rankstream creates a Qdrant collection that does not exist."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from schemas.settings.section import Count, Section


class CreateSettings(Section):
    """How a collection that does not exist is created. A collection that exists keeps what it was created with."""

    shards: Count = Field(
        default=1,
        description="Shards of the collection. Default: 1. Set more for a collection that outgrows one node of a Qdrant"
        " cluster: the rarity of a term is then counted in each shard, and keyword rankings change.",
    )
    replication_factor: Count | None = Field(
        default=None,
        description="Copies of each shard in a Qdrant cluster. Default: null, as the server is configured, mostly 1."
        " Set 2 or more if the collection must survive the loss of a node.",
    )
    write_consistency_factor: Count | None = Field(
        default=None,
        description="Copies that must confirm a write, at most `replication_factor`. Default: null, as the server is"
        " configured, mostly 1. Raise it if a document that was confirmed must survive the loss of a node.",
    )
    on_disk_payload: bool | None = Field(
        default=None,
        description="Whether payloads are read from disk. Default: null, as the server is configured, mostly true. Set"
        " false if there is memory for all payloads and they are read often.",
    )
    on_disk: bool | None = Field(
        default=None,
        description="Whether dense and token vectors are read from disk. Default: null, in memory as far as it"
        " suffices. Set true if the vectors are larger than the memory, and then quantization too.",
    )
    m: Annotated[int, Field(ge=4, le=128)] | None = Field(
        default=None,
        description="Links of a point in the HNSW index of the dense vector. Default: null, as the server is"
        " configured, mostly 16. Raise it if documents are missed whatever `qdrant.search.hnsw_ef` is; the index then"
        " takes more memory.",
    )
    ef_construct: Annotated[int, Field(ge=4, le=10_000)] | None = Field(
        default=None,
        description="Candidates that building the HNSW index looks at for each point. Default: null, as the server is"
        " configured, mostly 100. Raise it for a better index that takes longer to build.",
    )
    quantization: Literal["none", "scalar", "binary", "turbo"] = Field(
        default="none",
        description="Compressed copy of the dense vectors, which searches read first and which stays in memory: scalar,"
        " 8 bits a component; turbo, 4 bits, for Qdrant 1.19 or newer; binary, 1 bit, for 1024 components or more."
        " Default: none. Set it with `on_disk` if the vectors are larger than the memory.",
    )

    @model_validator(mode="after")
    def _confirmed(self) -> Self:
        copies, confirmed = self.replication_factor, self.write_consistency_factor
        if copies is not None and confirmed is not None and confirmed > copies:
            raise ValueError("write_consistency_factor: more than replication_factor, so that no write would succeed")
        return self

    def server_only(self) -> Iterator[str]:
        """The keys that ask for what only a server can do."""
        if self.shards > 1:
            yield "shards"
        for name in ("replication_factor", "write_consistency_factor"):
            if (getattr(self, name) or 1) > 1:
                yield name
        if self.on_disk_payload is False:
            yield "on_disk_payload"
        if self.quantization != "none":
            yield "quantization"
