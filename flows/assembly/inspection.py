"""What the commands ask of Qdrant before a flow does."""

from dataclasses import dataclass
from typing import Final

from flows.assembly.clients import InProcess
from flows.assembly.indexing import asking
from operators.clients.qdrant.answers import CollectionInfo
from operators.clients.qdrant.client import QdrantClient
from operators.indexing.collection import add, compared, create, described_by
from operators.indexing.findings import Finding, Level, of_collection
from schemas.errors import BackendError, Reason
from schemas.settings import QdrantSettings, Settings

_TIMEOUT: Final = 60.0

_REMEDIES: Final = {
    Reason.UNAUTHORIZED: "Check the API key, and which collections it may read",
    Reason.UNAVAILABLE: "Check qdrant.url, and that the server runs there",
    Reason.TIMEOUT: "Check qdrant.url, and the load of the server",
}


@dataclass(frozen=True, slots=True)
class Described:
    """A configured collection as Qdrant describes it: None if it isn't there, the error if it can't be read."""

    info: CollectionInfo | BackendError | None
    alias_of: str | None = None


def described(settings: Settings, in_process: InProcess) -> dict[str, Described]:
    """Every configured collection, by the name or the alias that the configuration has for it."""

    async def ask(client: QdrantClient) -> dict[str, Described]:
        try:
            aliases = await client.aliases(timeout=_TIMEOUT)
        except BackendError:
            # A key for some collections only may not list them.
            aliases = {}
        found = {}
        for collection in settings.qdrant.held:
            try:
                info: CollectionInfo | BackendError | None = await described_by(client, collection, _TIMEOUT)
            except BackendError as error:
                info = error
            found[collection] = Described(info, aliases.get(collection))
        return found

    with asking(settings, in_process) as (calls, client):
        return calls.run(ask(client), 2 * _TIMEOUT)


def findings(settings: Settings, collections: dict[str, Described]) -> list[Finding]:
    """What is to be said of the collections."""
    tokens = settings.rerank.kind == "late_interaction"
    found: list[Finding] = []
    for collection, each in collections.items():
        if isinstance(each.info, BackendError):
            remedy = _REMEDIES.get(each.info.reason, "See docs/backends.md")
            found.append(Finding(Level.ERROR, f"collection {collection}", str(each.info), remedy))
        else:
            found += of_collection(settings.qdrant, collection, each.info, each.alias_of, tokens=tokens)
    return found


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be made: collections, and indexes by collection."""

    created: list[str]
    added: dict[str, list[str]]


def planned(settings: QdrantSettings, collections: dict[str, Described], *, creating: bool, adding: bool) -> Plan:
    """What the two options would make of what is there. Raises BackendError for a collection that can't be read."""
    created, added = [], {}
    for collection, each in collections.items():
        if isinstance(each.info, BackendError):
            raise each.info
        if each.info is None:
            created += [collection] if creating else []
        elif adding and (fields := sorted(compared(settings, each.info).missing)):
            added[collection] = fields
    return Plan(created, added)


def make(settings: Settings, in_process: InProcess, plan: Plan) -> None:
    """Make it. Raises BackendError."""

    async def made(client: QdrantClient) -> None:
        for collection in plan.created:
            await create(client, settings.qdrant, collection, _TIMEOUT)
        for collection, fields in plan.added.items():
            await add(client, settings.qdrant, collection, fields, _TIMEOUT)

    with asking(settings, in_process) as (calls, client):
        calls.run(made(client), 10 * _TIMEOUT)
