"""One result event, for people or as JSON."""

from collections.abc import Mapping
from typing import Any, Final

from rich.markup import escape
from rich.table import Table

from flows.cli.output import emit, out
from schemas.errors import DeadLetterClass, InputError

_SNIPPET: Final = 200
_NAME_WIDTH: Final = 32


def show(result: dict[str, Any], text: str, as_json: bool) -> None:
    """Print one result event."""
    if as_json:
        emit(result)
    else:
        out.print(answer_table(result, text))


def refusal(error: Mapping[str, str]) -> InputError:
    """The error of a result `invalid`, in the words of its dead letter."""
    kind = DeadLetterClass(error["class"])
    return InputError(kind, f"the query was refused ({kind}): {error['reason']}")


def answer_table(result: dict[str, Any], query: str) -> Table:
    """One result event for people."""
    legs = [leg["name"] for leg in result["legs"]]
    shown = Table(title=escape(query), title_justify="left", expand=True)
    names = [hit["id"] for hit in result["results"]]
    shown.add_column("", min_width=2)
    shown.add_column("document", no_wrap=True, min_width=min(max(map(len, names), default=0), _NAME_WIDTH))
    for name in ("score", *legs):
        shown.add_column(name, justify="right", min_width=max(len(name), len("10.000")))
    # What is left of the line.
    shown.add_column("text", no_wrap=True, overflow="ellipsis", ratio=1)
    for hit in result["results"]:
        scores = [f"{hit['legs'][leg]['score']:.3f}" if leg in hit["legs"] else "-" for leg in legs]
        snippet = " ".join((hit["text"] or "").split())[:_SNIPPET]
        shown.add_row(str(hit["rank"]), escape(hit["id"]), f"{hit['score']:.3f}", *scores, escape(snippet))
    why = ", ".join(f"{part['stage']}: {part['reason']}" for part in result["degraded"])
    if "error" in result:
        why = result["error"]["reason"]
    if "denied" in result:
        why = result["denied"]["reason"]
    shown.caption = f"{result['status']}{' (' + why + ')' if why else ''}, {result['total']} candidates"
    shown.caption_justify = "left"
    return shown
