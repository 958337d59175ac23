"""Output of commands: results on standard output, everything else on standard error; how a result event is shown.

No text of others is obeyed: neither as markup or the name of an emoji by Rich, nor by the terminal (schemas.texts).
That holds for pipes and files, too: they may be shown on a terminal later.
"""

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text
from rich.tree import Tree

from schemas.fields import leaves
from schemas.texts import json_line, printable


class Terminal(Console):
    """A console on which everything is text as it is; only Rich's own codes and line ends control it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Replace what `printable` replaces, in whatever part of a table or tree it stands."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text, "\n"), style, control)


out = Terminal()
stderr = Terminal(stderr=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Config = Annotated[
    Path | None, typer.Option("--config", help="YAML configuration file. Default: environment variables only.")
]


STDIN: Final = Path("-")


def input_file(text: str, *names: str, once: bool = False, folder: bool = False, stdin: bool = False) -> Any:
    """An option with this help that names an existing file; unless it is read `once`, a pipe is refused.

    `folder`: it may be a folder; `stdin`: it may be - for standard input, too.
    """
    check = folder_or_stdin if stdin else _file_or_folder if folder else None if once else _regular_file
    return typer.Option(*names, exists=not folder, dir_okay=folder, callback=check, help=text)


def folder_or_stdin(path: Path | None) -> Path | None:
    """The path of a file or a folder, or - for standard input. Raises typer.BadParameter for any other."""
    return path if path == STDIN else _file_or_folder(path)


def _file_or_folder(path: Path | None) -> Path | None:
    if path is not None and not path.exists():
        raise typer.BadParameter(f"{str(path)!r} does not exist")
    return path if path is None or path.is_dir() else _regular_file(path)


def _regular_file(path: Path | None) -> Path | None:
    if path is not None and path.exists() and not path.is_file():
        raise typer.BadParameter(f"{path} is read more than once: a regular file is expected, and no pipe")
    return path


def say(console: Console, line: str, style: str | None = None) -> None:
    """Print one line as it is: its content neither wraps, ends nor colours it."""
    console.print(printable(line), style=style, soft_wrap=True)


@contextmanager
def progress(
    text: str, console: Console, patience: float = 0.0, quiet: float = math.inf
) -> Iterator[Callable[[int, int | None], None]]:
    """Yield what is told (done, all): a bar on a terminal has it from `patience` seconds on, else a line every `quiet`
    seconds.
    """
    # The help of all commands imports this module, too.
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # What is printed meanwhile may belong to standard output, wherever that goes.
    bar = Progress(*columns, console=console, redirect_stdout=False, disable=not console.is_terminal)
    task, began, lines = bar.add_task(printable(text), total=None), time.monotonic(), 1

    def tell(done: int, every: int | None) -> None:
        nonlocal lines
        bar.update(task, completed=done, total=every)
        if not console.is_terminal and time.monotonic() - began > lines * quiet:
            lines += 1
            say(console, f"{text}: {done} of {every}")
        elif time.monotonic() - began >= patience:
            bar.start()

    try:
        tell(0, None)
        yield tell
    finally:
        bar.stop()


def make_table(head: Iterable[str | Column], rows: Iterable[Iterable[object]], title: str | None = None) -> Table:
    """A table for people, of texts as they are, and of figures to the third digit."""
    table = Table(*head, title=title and printable(title), title_justify="left")
    for row in rows:
        table.add_row(*(f"{each:.3f}" if isinstance(each, float) else printable(str(each)) for each in row))
    return table


def emit(value: object) -> None:
    """Print one JSON object on a line of its own, whatever the terminal's width: in UTF-8, as all JSON is."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json_line(value).encode() + b"\n")
    sys.stdout.buffer.flush()


def print_record(record: object, *lines: str, as_json: bool) -> None:
    """Print one thing: as a JSON object, or for people as lines."""
    if as_json:
        emit(record)
    else:
        for line in lines:
            say(out, line)


UNANSWERED: Final = frozenset({"failed", "invalid"})
"""Statuses of a query without an answer."""

SHOWN: Final[Mapping[str, Any]] = {"passages": 1}
"""The `return` of a query whose answer is shown."""

_SNIPPET: Final = 200
_BEFORE: Final = 30
"""Characters before a highlight that are shown at most."""

_NAME_WIDTH: Final = 32
"""Characters of an id that has a column; longer ones, such as UUIDs, stand below the texts."""


def print_result(result: dict[str, Any], text: str, as_json: bool, title: str = "title") -> None:
    """Print one result event, whose documents have their titles by this name; a refusal is a line on standard error,
    too.
    """
    if as_json:
        emit(result)
    if (error := result.get("error")) is not None:
        say(stderr, f"the query was refused ({error['class']}): {error['reason']}", "red")
    if as_json or error is not None:
        return
    out.print(answer_table(result, text, title))
    for facet in result.get("facets", ()):
        counts = [
            f"{each.get('value', each.get('bounds'))} {each['count']}"
            for each in facet.get("values", facet.get("ranges"))
        ]
        say(out, f"{facet['field']}: {', '.join(counts)}{', …' if facet['more'] else ''}")
    for hit in result["results"]:
        if "explanation" in hit:
            out.print(explanation_tree(hit))
    if "debug" in result:
        out.print(debug_table(result["debug"]))
    for warning in result["warnings"]:
        say(stderr, f"warning: {warning}", "yellow")


def hint_of_nothing(result: Mapping[str, Any], namespace: str, *, filtered: bool) -> None:
    """Say where nothing was found, if no filter is the cause: the namespace may be another one."""
    # The help of all commands imports this module, too.
    from schemas.result import NO_DOCUMENT

    causes = (f"{NO_DOCUMENT}passes", f"{NO_DOCUMENT}has")
    if result["status"] != "ok" or result["results"] or any(each.startswith(causes) for each in result["warnings"]):
        return
    matching = " that matches the filters" if filtered else ""
    say(stderr, f"nothing{matching} was found in the namespace {namespace}: --namespace searches another")


def answer_table(result: Mapping[str, Any], query: str, title: str = "title") -> Table:
    """The results, with a column for each leg that found one; further documents of a group stand below, unranked."""
    # The help of all commands, which needs no results, imports this module, too.
    from operators.query.result import members

    shown = list(members(result))
    legs = [leg["name"] for leg in result["legs"] if any(leg["name"] in each["legs"] for each in shown)]
    table = Table(title=printable(query), title_justify="left", expand=True)
    names = [printable(str(each["id"])) for each in shown]
    table.add_column("", min_width=2)
    width = max(map(len, names), default=0)
    if width <= _NAME_WIDTH:
        table.add_column("document", no_wrap=True, min_width=width)
    for name in ("score", *legs):
        table.add_column(printable(name), justify="right", min_width=max(len(name), len("10.000")))
    # What is left of the line.
    table.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for each, name in zip(shown, names, strict=True):
        scores = [f"{each['legs'][leg]['score']:.3f}" if leg in each["legs"] else "-" for leg in legs]
        text, numbers = printable(snippet(each, title)), (f"{each['score']:.3f}", *scores)
        cells: tuple[RenderableType, ...] = (name, *numbers, text)
        if width > _NAME_WIDTH:
            cells = (*numbers, Group(text, Text(name, no_wrap=False, overflow="fold")))
        table.add_row(str(each.get("rank", "")), *cells)
    lost = ", ".join(f"{part['stage']}: {part['reason']}" for part in result["degraded"])
    why = result["denied"]["reason"] if "denied" in result else lost
    table.caption = printable(f"{result['status']}{' (' + why + ')' if why else ''}{_count(result)}")
    table.caption_justify = "left"
    return table


def _count(result: Mapping[str, Any]) -> str:
    """The number of matches, and of results behind them; nothing of a query that was not searched."""
    total, relation = result["total"], result["total_relation"]
    if result["status"] in UNANSWERED | {"denied", "expired"}:
        return ""
    behind = sum(hit.get("rank", 0) > total for hit in result["results"]) if relation == "eq" else 0
    counted = f"{total}{'+' if relation == 'gte' else ''} {'nearest' if relation == 'nearest' else 'matching'}"
    return f", {counted}{f', {behind} by meaning alone' if behind else ''}"


def snippet(hit: Mapping[str, Any], called: str = "title") -> str:
    """The title, unless it is the id, and the text from shortly before the first word that matched, or its start."""
    from operators.mapping.rows import column_value

    text, cut = hit["text"] or "", False
    if passages := hit.get("passages"):
        best = passages[0]
        first = best["highlights"][0][0] if best["highlights"] else 0
        start = max(best["text"].find(" ", first - _BEFORE, first), 0) if first > _BEFORE else 0
        text, cut = best["text"][start:], best["start"] + start > 0
    shown = f"{'… ' if cut else ''}{' '.join(text.split())}"[:_SNIPPET]
    title = column_value(hit["payload"], called)
    return f"{' '.join(title.split())}: {shown}" if isinstance(title, str) and title != str(hit["id"]) else shown


def explanation_tree(hit: Mapping[str, Any]) -> Tree:
    """The explanation of a score: the legs, and the stages from the first to the last, whose output is the score."""
    explanation = hit["explanation"]
    tree = Tree(printable(f"{hit['rank']}. {hit['id']}: {hit['score']:.4f}"), highlight=False)
    for name, leg in explanation["legs"].items():
        parts = [f"{part} {leg[part]:.4f}" for part in ("score", "normalised", "weight", "contribution") if part in leg]
        tree.add(printable(f"leg {name}: rank {leg['rank']}, {', '.join(parts)}"))
    for stage in explanation["stages"]:
        came = "" if stage["input"] is None else f"{stage['input']:.4f} -> "
        branch = tree.add(printable(f"stage {stage['stage']}: {came}{stage['output']:.4f}"))
        for kind in ("parameters", "values"):
            for path, value in leaves(stage[kind]):
                if value != {}:
                    shown = f"{value:.4f}" if isinstance(value, float) else value
                    branch.add(printable(f"{'.'.join(path)}: {shown}"))
    return tree


def debug_table(debug: Mapping[str, Any]) -> Table:
    """The stages that the query passed."""
    figures = Column("candidates", justify="right"), Column("ms", justify="right")
    counts, taken = debug["candidates_per_stage"], {k: f"{v:.1f}" for k, v in debug["per_stage_latency_ms"].items()}
    rows = ((name, counts.get(name, ""), taken.get(name, "")) for name in debug["stages_hit"])
    return make_table(("stage", *figures), rows, f"{debug['total_latency_ms']:.1f} ms")
