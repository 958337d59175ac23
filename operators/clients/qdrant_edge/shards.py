"""The engine's collections in one directory: a shard each, the body of its creation, and a cache of hits' payloads.

`<path>/collections/<name>/shard` belongs to the engine; `collection.json` next to it is written last, so a directory
without one is a creation that never finished.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

import orjson
import qdrant_edge as edge

from operators.caching.bounded import OVERHEAD, BoundedCache
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant_edge.conversions import VectorSchema, edge_config
from schemas.errors import ConfigError, IndexInUse

T = TypeVar("T")

# The engine shortens its log only in a flush, and replays all of it when the shard is opened: 7 s for 370 MB.
FLUSH_EVERY = 32 * 1024 * 1024
NAME = re.compile(r"[^<>:\"/\\|?*\0\x1f]{1,255}")


class Refusal(Exception):
    """A request that the engine can't serve, and a server's status for the same cause."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class HitPayloads(BoundedCache[tuple[int, int, tuple[str, ...]], bytes]):
    """The fields of hits' payloads that a search lists: read once for each version of a point.

    The engine parses a payload whole, whatever fields are asked for, and the legs of a query find the same points: to
    read a hundred payloads takes longer than to find their points. Those used last are kept, within `max_bytes`. A
    search without a vector gives every point the version 0: nothing of that is kept.
    """

    def __init__(self, max_bytes: int = 16 * 1024 * 1024) -> None:
        super().__init__(max_bytes, lambda _, payload: len(payload) + OVERHEAD)

    def read(
        self, shard: edge.EdgeShard, points: Sequence[edge.ScoredPoint], fields: tuple[str, ...]
    ) -> list[Mapping[str, Any]]:
        """These fields of points that the shard found without their payloads."""
        ids = [point.id for point in points]
        keys = [(_number(id_), point.version, fields) for id_, point in zip(ids, points, strict=True)]
        hits = {key: hit for key in keys if key[1] and (hit := self.get(key)) is not None}
        if missing := {key: id_ for key, id_ in zip(keys, ids, strict=True) if key not in hits}:
            records = shard.retrieve(list(missing.values()), edge.PayloadSelector.Include(list(fields)), False)
            read = {_number(record.id): orjson.dumps(record.payload) for record in records}
            for key in missing:
                hits[key] = read[key[0]]
                if key[1]:
                    self.put(key, hits[key])
        return [orjson.loads(hits[key]) for key in keys]


def _number(identity: int | UUID | str) -> int:
    """A number that no other point's id has: to hash a UUID takes several times as long."""
    if isinstance(identity, int):
        return identity
    return -1 - (identity if isinstance(identity, UUID) else UUID(identity)).int


class Collection:
    """One open collection; every method may be called from any thread and holds the interpreter while it runs."""

    def __init__(self, directory: Path, record: Mapping[str, Any], shard: edge.EdgeShard) -> None:
        self.name = directory.name
        self.created: Mapping[str, Any] = record["created"]
        self.indexes: Mapping[str, Any] = record["indexes"]
        self.schema = VectorSchema.of(self.created)
        self.hit_payloads = HitPayloads()
        self._directory = directory
        self._shard = shard
        self._lock = threading.Lock()
        self._open = True
        self._unflushed = 0

    def run(self, call: Callable[[edge.EdgeShard], T]) -> T:
        """`call` on the shard; raises what the engine raises, and Refusal (404) once the collection is closed."""
        with self._lock:
            if not self._open:
                raise _no_collection(self.name)
            try:
                return call(self._shard)
            except BaseException as error:
                # A panic in the engine, which the interpreter outlives; its class can't be imported.
                if type(error).__name__ == "PanicException":
                    raise Refusal(500, "Service internal error: the engine panicked") from error
                raise

    def describe(self) -> CollectionInfo:
        info = self.run(lambda shard: shard.info())
        return CollectionInfo(
            points=info.points_count,
            shards=1,
            vectors=self.schema.dense,
            sparse_vectors=self.schema.sparse,
            indexes={
                field: {"data_type": schema["type"], "params": schema, "points": info.payload_schema[field].points}
                for field, schema in self.indexes.items()
            },
            metadata=self.created.get("metadata", {}),
            strict={},
        )

    def create_index(self, field: str, schema: Any, params: edge.PayloadSchemaParams) -> None:
        """Index a payload field, or change its index, and note its `schema`; returns when it is built."""
        self.update(edge.UpdateOperation.create_field_index(field, params))
        with self._lock:
            self.indexes = {**self.indexes, field: schema}
            _write(self._directory / "collection.json", {"created": self.created, "indexes": self.indexes})

    def update(self, operation: edge.UpdateOperation, size: int = 0) -> None:
        """Apply an update of about `size` bytes, and flush when there have been many."""
        self.run(lambda shard: shard.update(operation))
        self.wrote(size)

    def wrote(self, size: int) -> None:
        """Count `size` bytes of updates, and flush when they have become many."""
        self._unflushed += size
        if self._unflushed >= FLUSH_EVERY:
            self.flush()

    def flush(self) -> None:
        self._unflushed = 0
        self.run(lambda shard: shard.flush())

    def close(self) -> None:
        """Flush and release the shard; requests that still come are refused."""
        with self._lock:
            self._open = False
            self._shard.close()


class Engine:
    """Qdrant's engine over one directory, shared by the clients of every event loop of this process.

    Raises ConfigError where the directory can't be made or has a broken shard, and IndexInUse where it is open in
    another Engine.
    """

    def __init__(self, path: Path) -> None:
        self._root = path / "collections"
        self._lock = threading.Lock()
        try:
            # It holds the texts of all documents, of all namespaces.
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root.mkdir(exist_ok=True)
        except OSError as error:
            raise ConfigError(f"the embedded Qdrant can't use {path}: {error.strerror}") from error
        self._lock_file = _lock_directory(path)
        made = sorted(record.parent for record in self._root.glob("*/collection.json"))
        self._collections = {directory.name: _open(directory) for directory in made}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def names(self) -> list[str]:
        return sorted(self._collections)

    def exists(self, name: str) -> bool:
        return name in self._collections

    def collection(self, name: str) -> Collection:
        """The collection of this name; raises Refusal (404)."""
        try:
            return self._collections[name]
        except KeyError:
            raise _no_collection(name) from None

    def create(self, name: str, created: Mapping[str, Any]) -> None:
        """Create a collection by Qdrant's body, without nulls; raises Refusal, and what `edge_config` raises."""
        config = edge_config(created)
        if not NAME.fullmatch(name) or name in {".", ".."}:
            raise Refusal(422, f"collection name `{name}` contains forbidden characters")
        with self._lock:
            if self.exists(name):
                raise Refusal(409, f"Wrong input: Collection `{name}` already exists!")
            directory = self._root / name
            shutil.rmtree(directory, ignore_errors=True)
            (directory / "shard").mkdir(parents=True)
            record = {"created": created, "indexes": {}}
            shard = edge.EdgeShard.create(str(directory / "shard"), config)
            _write(directory / "collection.json", record)
            self._collections[name] = Collection(directory, record, shard)

    def drop(self, name: str) -> bool:
        """Delete a collection; False if there was none."""
        with self._lock:
            collection = self._collections.pop(name, None)
            if collection is None:
                return False
            collection.close()
            (self._root / name / "collection.json").unlink()
            shutil.rmtree(self._root / name)
            return True

    def flush(self) -> None:
        for collection in list(self._collections.values()):
            collection.flush()

    def close(self) -> None:
        """Flush and close every collection, and let another process have the directory."""
        with self._lock:
            for collection in self._collections.values():
                collection.close()
            self._collections = {}
            os.close(self._lock_file)


def _open(directory: Path) -> Collection:
    record = orjson.loads((directory / "collection.json").read_bytes())
    try:
        shard = edge.EdgeShard.load(str(directory / "shard"))
    except Exception as error:
        raise ConfigError(f"the embedded Qdrant can't open {directory}: {error}") from error
    return Collection(directory, record, shard)


def _lock_directory(path: Path) -> int:
    locked = os.open(path / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(locked)
        cure = "end that one, or run both flows in one, `rankstream run --with-indexing`"
        message = f"the embedded Qdrant at {path} is open in another process, and only one can have it: {cure}"
        raise IndexInUse(message) from error
    return locked


def _write(file: Path, value: object) -> None:
    written = file.with_suffix(".new")
    with written.open("wb") as stream:
        stream.write(orjson.dumps(value))
        stream.flush()
        os.fsync(stream.fileno())
    written.replace(file)


def _no_collection(name: str) -> Refusal:
    return Refusal(404, f"Not found: Collection `{name}` doesn't exist!")
