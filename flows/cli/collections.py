"""`rankstream collections`: what each configured Qdrant collection has and lacks; creates what it is told to."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from flows.assembly.clients import InProcess
from flows.cli.output import Config, Json, emit, out
from flows.process import logs
from schemas.errors import BackendError
from schemas.settings import QdrantSettings, load


def collections(
    config: Config = None,
    create: Annotated[bool, typer.Option("--create", help="Create the collections that do not exist.")] = False,
    add_indexes: Annotated[
        bool,
        typer.Option(
            "--add-indexes", help="Add the payload indexes that are missing, also to collections of other tools."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be made, and make nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Show what each configured collection has and lacks; with --create or --add-indexes, make what is missing.

    Nothing that exists is changed.
    """
    # Qdrant's models take a second to import: only the commands that need them wait for them.
    from flows.assembly.inspection import described, make, planned

    settings = load(config)
    logs.configure(settings.telemetry)
    in_process = InProcess(settings)
    try:
        found = described(settings, in_process)
        if create or add_indexes:
            plan = planned(settings.qdrant, found, creating=create, adding=add_indexes)
            if not dry_run:
                make(settings, in_process, plan)
            if as_json:
                emit({"dry_run": dry_run, "created": plan.created, "added": plan.added})
            else:
                would = "would be " if dry_run else ""
                for collection in plan.created:
                    _say(f"collection {collection}: {would}created")
                for collection, fields in plan.added.items():
                    _say(f"collection {collection}: indexes {would}added: {', '.join(fields)}")
                if not (plan.created or plan.added):
                    _say("nothing to make")
            return
    finally:
        in_process.close()
    rows = [_row(settings.qdrant, collection, each.info, each.alias_of) for collection, each in found.items()]
    for row in rows:
        if as_json:
            emit(row)
        else:
            for line in _lines(row):
                _say(line)
    if any("error" in row for row in rows):
        raise typer.Exit(1)


def _row(settings: QdrantSettings, collection: str, info: Any, alias_of: str | None) -> dict[str, Any]:
    from operators.indexing.collection import compared, ours

    row: dict[str, Any] = {"collection": collection}
    if isinstance(info, BackendError):
        return {**row, "error": str(info)}
    if info is None:
        return {**row, "exists": False}
    inspection = compared(settings, info)
    return {
        **row,
        "exists": True,
        "alias_of": alias_of,
        "owned": ours(settings, collection, info),
        "points": info.points,
        "shards": info.shards,
        "vectors": info.vectors,
        "sparse_vectors": info.sparse_vectors,
        "indexes": {field: index.get("params") or index.get("data_type") for field, index in info.indexes.items()},
        "strict_mode": info.strict,
        "missing_indexes": sorted(inspection.missing),
        "differences": [str(each) for each in inspection.differences],
    }


def _lines(row: dict[str, Any]) -> Iterator[str]:
    title = f"collection {row['collection']}"
    if "error" in row:
        yield f"{title}: {row['error']}"
        return
    if not row["exists"]:
        yield f"{title}: does not exist; rankstream collections --create creates it"
        return
    alias = f", alias of {row['alias_of']}" if row["alias_of"] else ""
    owned = "rankstream writes to it" if row["owned"] else "only read"
    yield f"{title}{alias}: {row['points']} points, {row['shards']} shards, {owned}"
    for name, params in row["vectors"].items():
        yield f"  vector {name!r}: {params.get('size')} components, {params.get('distance')}"
    for name, params in row["sparse_vectors"].items():
        yield f"  sparse vector {name!r}: modifier {params.get('modifier') or 'none'}"
    yield f"  indexes: {', '.join(sorted(row['indexes'])) or 'none'}"
    if row["missing_indexes"]:
        yield f"  missing indexes: {', '.join(row['missing_indexes'])}"
    for difference in row["differences"]:
        yield f"  {difference}"
    if row["strict_mode"]:
        limits = (f"{name} {value}" for name, value in sorted(row["strict_mode"].items()) if value is not None)
        yield f"  strict mode: {', '.join(limits)}"


def _say(line: str) -> None:
    out.print(line, highlight=False, markup=False, soft_wrap=True)
