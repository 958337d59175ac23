"""The words of the code: those that were given up don't come back, functions are verbs, one name has one meaning."""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import pytest

from tests.docs.pages import DOCS
from tests.test_layout import PRODUCT, room, sources

GIVEN_UP: Final = {
    "told": "the thing: callback, throttle, warned_partitions",
    "held": "physical, for a collection",
    "kept": "cached",
    "place": "position, rank",
    "places": "positions, ranks",
    "near": "similar",
    "shelf": "bucket",
    "hopeless": "expired",
    "instead": "fallback",
    "letter": "fallback, dead_letter",
    "asking": "what it returns",
    "in_order": "what it returns",
    "shown": "what it returns",
    "settle": "complete",
}
"""Words that say nothing, or said several things, each with what is written now. No name of the product is one."""

FUNCTIONS: Final = {"parts", "cut", "canonical", "merged", "instead"}
"""These are good names of values; as a function each says nothing of what it returns."""

IRREGULAR: Final = {
    *("built", "cut", "drawn", "found", "given", "gone", "held", "kept", "left", "lost"),
    *("made", "met", "said", "sent", "shown", "taken", "told", "written"),
}
VERBS: Final = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "succeed"}
EVENTS: Final = {
    *("abandoned", "answered", "assigned", "degraded", "delivered", "ended", "failed", "lost"),
    *("passed", "rejected", "revoked", "sent", "succeeded", "unanswered"),
}
"""A function that hears of an event has the event's name."""

FIELD: Final = {"committed", "expired"}
"""Words of Kafka and of queues, for what such a function returns."""

TWINS: Final = "operators.delivery.librdkafka."
"""Both Kafka clients keep one promise, under the same names: one of them is enough."""


SEVERAL: Final = {
    **dict.fromkeys(("Bounds", "Limits"), "a published JSON Schema has one of them"),
    "rank": "the step; the command",
}
"""Names of functions and classes that two rooms define, each with its meanings. The list may only get shorter."""


class Named(NamedTuple):
    """One identifier: its module and line, and its kind: function, method, class, attribute or parameter."""

    module: str
    line: int
    kind: str
    name: str


def names(modules: dict[str, str]) -> Iterator[Named]:
    """Every identifier that the modules define, apart from local variables."""
    for module, source in modules.items():
        for parent in ast.walk(ast.parse(source)):
            if isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Store):
                yield Named(module, parent.lineno, "attribute", parent.attr)
            elif isinstance(parent, ast.arg):
                yield Named(module, parent.lineno, "parameter", parent.arg)
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.ClassDef):
                    yield Named(module, node.lineno, "class", node.name)
                elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    is_value = any("property" in ast.unparse(each) for each in node.decorator_list)
                    kind = "method" if isinstance(parent, ast.ClassDef) else "function"
                    yield Named(module, node.lineno, "attribute" if is_value else kind, node.name)
                elif isinstance(parent, ast.ClassDef) and isinstance(node, ast.AnnAssign):
                    yield Named(module, node.lineno, "attribute", ast.unparse(node.target))


def given_up(modules: dict[str, str]) -> list[str]:
    """Identifiers that are a word of GIVEN_UP, or functions of FUNCTIONS, underscores and case aside."""
    return [
        f"{each.module}:{each.line}: {each.kind} {each.name}"
        for each in names(modules)
        if (word := each.name.strip("_").lower()) in GIVEN_UP
        or "told" in word.split("_")
        or (word in FUNCTIONS and each.kind in {"function", "method"})
    ]


def participles(modules: dict[str, str]) -> list[str]:
    """Functions whose name is a past participle, apart from methods that are named after an event."""
    return [
        f"{each.module}:{each.line}: {each.name}"
        for each in names(modules)
        if each.kind in {"function", "method"}
        and (word := each.name.strip("_")) not in VERBS | EVENTS | FIELD
        and (word in IRREGULAR or re.fullmatch(r"[a-z]+ed", word))
    ]


def ambiguous(modules: dict[str, str], scope: Callable[[str], str | None] = room) -> list[str]:
    """Public functions and classes whose name is defined twice in a scope, which is that of each module."""
    found: dict[tuple[str | None, str], list[str]] = defaultdict(list)
    for module, source in modules.items():
        for node in ast.parse(source).body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            if not module.endswith("__main__") and not module.startswith(TWINS):
                found[scope(module), node.name].append(module)
    return [f"{name}: {', '.join(where)}" for (_, name), where in found.items() if len(where) > 1]


def test_words_that_were_given_up_are_not_used() -> None:
    """No function, class, attribute or parameter has a name that says nothing, or that said several things."""
    assert given_up(sources(*PRODUCT)) == []


def test_functions_are_verbs() -> None:
    """No function has a past participle as its name."""
    assert participles(sources(*PRODUCT)) == []


def test_a_name_has_one_meaning_in_a_room() -> None:
    """No room defines a public function or class of the same name twice."""
    assert ambiguous(sources(*PRODUCT)) == []


def of_product(_: str) -> None:
    """The scope of every module: the whole product."""


def test_a_name_has_one_meaning_in_the_product() -> None:
    """No two rooms define a public function or class of the same name, apart from those of SEVERAL."""
    found = {each.partition(":")[0]: each for each in ambiguous(sources(*PRODUCT), of_product)}
    assert [each for name, each in found.items() if name not in SEVERAL] == []
    assert SEVERAL.keys() - found.keys() == set()


@pytest.mark.parametrize(
    "planted",
    ["class Told: ...", "def f(held): ...", "class A:\n    _place: int", "def _parts(): ...", "x._told_of = 1"],
)
def test_a_word_that_was_given_up_is_seen(planted: str) -> None:
    """A planted class, parameter, attribute or function is reported; a local variable of the name is not."""
    assert len(given_up({"planted": planted})) == 1
    assert given_up({"planted": "def f():\n    held = parts = 1"}) == []


def test_a_participle_and_a_second_meaning_are_seen() -> None:
    """A function `retrieved` is reported, a property isn't; so is a second class of a name, in one room or in two."""
    planted = (
        "def retrieved(): ...\nclass A:\n    @property\n    def fused(self): ...\n    async def _written(self): ..."
    )
    assert participles({"planted": planted}) == ["planted:1: retrieved", "planted:5: _written"]
    twice = {"operators.query.one": "class A: ...", "operators.query.two": "def A(): ..."}
    assert ambiguous(twice) == ["A: operators.query.one, operators.query.two"]
    rooms = {"operators.query.one": "class A: ...", "operators.access.two": "class A: ..."}
    assert ambiguous(rooms) == []
    assert ambiguous(rooms, of_product) == ["A: operators.query.one, operators.access.two"]


def test_the_glossary_has_each_word_once_in_order() -> None:
    """Each word of the glossary has one entry, the entries are in the order of the alphabet."""
    words = re.findall(r"(?m)^\*\*([^*]+)\.\*\*", (DOCS / "glossary.md").read_text(encoding="utf-8"))
    assert words == sorted(set(words), key=lambda word: word.lower().replace("-", " "))
