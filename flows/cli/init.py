"""`rankstream init`: a look at somebody's documents becomes a commented configuration."""

import tempfile
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer
from rich.console import Console

from flows.cli.output import file_or_folder, out, say, stderr
from flows.cli.records import STDIN, Records, copy_stdin
from operators.mapping.configuration import describe_mapping, write_yaml
from operators.mapping.inference import ROLES, DocumentMapping, infer
from operators.mapping.profile import MOST
from schemas.errors import ConfigError, DeadLetterClass, InputError

_REASONS: Final = 3
"""Reasons that are told for documents that are skipped."""

_WIDTH: Final = 11


def infer_records(records: Records, given: Mapping[str, str] | None = None) -> DocumentMapping:
    """The mapping of the first documents; `given` has the columns of roles, "" for none. Raises InputError for none."""
    sample = [document for _, document in islice(records.usable(), MOST)]
    if not sample:
        raise InputError(DeadLetterClass.INVALID, f"{records.path}: there is no document in it")
    return infer(sample, time.time(), markup=not records.plain, given=given or {})


def print_mapping(mapping: DocumentMapping, name: str, form: str, console: Console) -> None:
    """Say what was chosen, a line for each part."""
    sampled = f"the first {mapping.total}" if mapping.total >= MOST else str(mapping.total)
    say(console, f"{name}: {form}, {sampled} documents")
    for part, chosen in describe_mapping(mapping):
        say(console, f"  {part:{_WIDTH}} {chosen}")


def print_skipped(skipped: Iterable[str], total: int, console: Console) -> None:
    """Say how many documents were not taken, with the first reasons."""
    if reasons := list(skipped):
        say(console, f"skipped {len(reasons)} of {total} documents:", "yellow")
        for reason in reasons[:_REASONS]:
            say(console, f"  {reason}", "yellow")


class RoleOption(NamedTuple):
    """A role, and the field that has it; "" for none."""

    role: str
    column: str


def parse_role(text: str) -> RoleOption:
    """Read ROLE=FIELD. Raises typer.BadParameter."""
    role, equals, column = text.partition("=")
    if not equals or role not in ROLES:
        raise typer.BadParameter(f"{text!r} is not ROLE=FIELD; roles are {', '.join(ROLES)}")
    return RoleOption(role, column)


def init(
    documents: Annotated[
        Path,
        typer.Argument(
            callback=file_or_folder,
            help="File of documents (JSON Lines, a JSON array, or CSV), a folder of Markdown or HTML files, or - for"
            " standard input.",
        ),
    ],
    write: Annotated[
        Path, typer.Option(dir_okay=False, allow_dash=True, help="File for the configuration; - prints it.")
    ] = Path("rankstream.yaml"),
    role: Annotated[
        list[RoleOption] | None,
        typer.Option(
            parser=parse_role,
            metavar="ROLE=FIELD",
            help="Field of the documents with this role: id, title, text, created_at, updated_at, lang or namespace."
            " Nothing behind the sign: no field has it. May be repeated. Default: decided by the values.",
        ),
    ] = None,
    interactive: Annotated[bool, typer.Option("--interactive", help="Ask which field has each role.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Look at documents, decide which field is what, and write a commented configuration.

    Decided by the values: id, title, text, times and their form, language, namespace, fields to search and to filter,
    HTML and Markdown. Nothing is indexed.
    """
    if write != STDIN and write.exists() and not force:
        raise ConfigError(f"{write} exists: --force replaces it, --write names another file")
    with tempfile.TemporaryDirectory() as directory:
        records = Records.of(copy_stdin(Path(directory)) if documents == STDIN else documents)
        name = "standard input" if documents == STDIN else documents.name
        mapping = infer_records(records, dict(role or ()))
        if interactive:
            mapping = infer_records(records, {**ask_roles(mapping), **dict(role or ())})
        print_mapping(mapping, name, records.form, stderr)
        print_skipped(records.wrong(), sum(1 for _ in records.read()), stderr)
    content = write_yaml(mapping, name, records.form)
    if write == STDIN:
        out.out(content, end="")
    else:
        write.write_text(content, encoding="utf-8")
        say(stderr, f"written: {write}")


def ask_roles(mapping: DocumentMapping) -> dict[str, str]:
    """The field of each role, as the user says."""
    columns = [each.column for each in mapping.profiles]
    say(stderr, f"fields: {', '.join(columns)}")
    answers: dict[str, str] = {}
    for role in ROLES:
        chosen = mapping.roles[role].column if role in mapping.roles else ""
        while (said := typer.prompt(f"{role} (- for none)", default=chosen or "-", err=True)) not in [*columns, "-"]:
            say(stderr, f"no field is called {said}", "red")
        answers[role] = "" if said == "-" else said
    return answers
