"""Returned: the parts of documents that the results of a query have. Pure.

Rules:
- A path of names goes through objects, and through each object of an array.
- Hidden fields, and all that is inside of them, are gone before anything else is chosen; a hidden text has no passages.
- A result always has its id. Where the query, its policy and its profile say nothing, it has all the rest, too.
- The texts of one page are searched for passages up to READ code points together, each for the same share.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, cast

from operators.text.passages import Hint, Matcher, TextPassage, excerpt
from schemas.document import GROUP, ORDER, TEXT
from schemas.query import Returned

READ: Final = 400_000

_NAME: Final = re.compile(r'"([^"]*)"|([^."]+)')
_BRACKETS: Final = re.compile(r"\[\d*\]")

Payload = Mapping[str, Any]
Around = tuple[Sequence[Payload], Sequence[Payload]]
"""The payloads of a document's neighbours: of those before it, and of those behind it, each in their order."""


def is_hidden(path: str, hidden: Collection[str]) -> bool:
    """True if the path is one of the hidden fields, or inside of one; brackets of arrays and quotes say nothing."""
    # Most policies hide none.
    if not hidden:
        return False
    plain = ".".join(_names(path))
    fields = (".".join(_names(field)) for field in hidden)
    return any(plain == field or plain.startswith(f"{field}.") for field in fields)


def _names(path: str) -> list[str]:
    """The names of a path, without quotes and brackets."""
    return [quoted or plain for quoted, plain in _NAME.findall(_BRACKETS.sub("", path))]


def hide(payload: Payload, hidden: Iterable[str]) -> Payload:
    """The payload without these fields."""
    for path in hidden:
        payload = cast("Payload", _drop(payload, _names(path)))
    return payload


def select(payload: Payload, fields: Sequence[str]) -> Payload:
    """The payload with these fields alone."""
    tree: dict[str, Any] = {}
    # A field inside of another one that is wanted is there with it.
    for path in (each for each in fields if not any(each.startswith(f"{other}.") for other in fields)):
        place = tree
        for name in _names(path):
            place = place.setdefault(name, {})
    return cast("Payload", _pick(payload, tree))


@dataclass(frozen=True, slots=True)
class View:
    """The parts that a query's results have; `matcher` finds its words, None where it has none.

    `share` is how much of each text is searched for passages: the part with the most of the query's words.
    """

    returned: Returned | None
    hidden: tuple[str, ...] = ()
    matcher: Matcher | None = None
    share: int = READ

    def document(self, text: str | None, payload: Payload, hints: Sequence[Hint] = ()) -> dict[str, Any]:
        """A result's text, payload and passages as asked for; `hints` are those of a text without the query's words."""
        if self.hidden:
            payload = hide(payload, self.hidden)
            text = None if is_hidden(TEXT, self.hidden) else text
        said = self.returned
        if said is None:
            return {"text": text, "payload": payload}
        parts: dict[str, Any] = {
            "text": text,
            "payload": payload if said.fields is None else select(payload, said.fields),
        }
        size = said.text if isinstance(said.text, int) else None
        wanted = max(said.passages or 0, int(size is not None))
        found = self._passages(text, wanted, hints) if text is not None else []
        if said.text == "none":
            parts["text"] = None
        elif size is not None and text is not None:
            parts["text"] = excerpt(text, found[0].around(size) if found else 0, size)
        if said.passages:
            parts["passages"] = [
                {**each._asdict(), "highlights": [list(span) for span in each.highlights]}
                for each in found[: said.passages]
            ]
        return parts

    def neighbours(self, around: Around) -> dict[str, Any]:
        """The neighbours as a result has them."""
        unseen = is_hidden(TEXT, self.hidden)

        def show(payload: Payload) -> dict[str, Any]:
            text = payload.get(TEXT)
            return {"id": payload["id"], "text": text if isinstance(text, str) and not unseen else None}

        before, behind = around
        return {"before": [*map(show, before)], "after": [*map(show, behind)]}

    def best(self, text: str) -> str:
        """The best passage of a text."""
        found = self._passages(text, 1)
        return found[0].text if found else ""

    def _passages(self, text: str, wanted: int, hints: Sequence[Hint] = ()) -> list[TextPassage]:
        if not wanted:
            return []
        matcher = self.matcher if self.matcher is not None else _NO_WORDS
        start = matcher.part(text, self.share)
        found = matcher.passages(text[start : start + self.share], wanted, hints)
        return [each._replace(start=start + each.start) for each in found] if start else found


_NO_WORDS: Final = Matcher((), lambda _: ())


def split_neighbours(own: tuple[str, Payload], around: Iterable[tuple[str, Payload]], most: int) -> Around:
    """At most `most` neighbours before a document, and as many behind it: of its group, by their present order.

    Of equal places the point's id decides, as in the index. A neighbour without an id of its own has the point's.
    """
    place = _position(*own)
    group = own[1].get(GROUP)
    placed = [
        (_position(id_, payload), {"id": id_, **payload}) for id_, payload in around if payload.get(GROUP) == group
    ]
    found = sorted(placed, key=itemgetter(0))
    before = [payload for other, payload in found if other < place]
    behind = [payload for other, payload in found if other > place]
    return before[max(0, len(before) - most) :], behind[:most]


def _position(id_: str, payload: Payload) -> tuple[float, str]:
    order = payload.get(ORDER)
    return (float(order) if isinstance(order, int | float) else math.inf, id_)


def share_of(documents: int) -> int:
    """The number of code points of each text that is searched for passages, on a page of so many documents."""
    return READ // max(documents, 1)


def wants_words(returned: Returned | None) -> bool:
    """True if passages are to be found."""
    return returned is not None and bool(returned.passages or isinstance(returned.text, int))


def _drop(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_drop(each, names) for each in value]
    if not isinstance(value, Mapping):
        return value
    name, *rest = names
    # Documents of other tools may have the whole path for a name.
    left = {each: inner for each, inner in value.items() if each != ".".join(names)}
    if rest and name in left:
        left[name] = _drop(left[name], rest)
    return left


def _pick(value: Any, tree: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_pick(each, tree) for each in value if isinstance(each, Mapping | list)]
    return {
        name: _pick(inner, tree[name]) if tree[name] else inner
        for name, inner in value.items()
        if name in tree and (not tree[name] or isinstance(inner, Mapping | list))
    }
