"""The layout that the code promises: which room may import which, what is pure, how long modules are and their names.

A room is a package whose name is the concern of everything in it.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LEVELS = (
    ("schemas",),
    ("operators.runtime", "operators.text"),
    (
        *("operators.ranking", "operators.access", "operators.caching", "operators.evaluation"),
        *("operators.experiments", "operators.mapping"),
    ),
    ("operators.wire",),
    ("operators.query",),
    ("operators.telemetry",),
    ("operators.clients", "operators.delivery"),
    ("operators.collections",),
    ("operators.stages", "operators.indexing"),
    ("flows.assembly",),
    ("flows.search", "flows.indexing", "flows.feedback"),
    ("flows.process",),
    ("flows.cli",),
)
"""The rooms, lowest first: each may import itself and those of the levels below its own."""

LEVEL = {room: level for level, rooms in enumerate(LEVELS) for room in rooms}

PURE = (
    "operators.text",
    "operators.mapping",
    "operators.wire",
    "operators.query",
    "operators.access",
    "operators.caching",
    "operators.ranking",
    "operators.evaluation",
    "operators.experiments",
)
"""These import the standard library, numpy, schemas and each other only; so do PURE_MODULES."""

PURE_MODULES = ("operators.delivery.tracker", "operators.runtime.batching")

PRODUCT = ("schemas", "operators", "flows")
OUTSIDE = {"tests", "bench"}
KAFKA_CLIENTS = {"kafka", "confluent_kafka"}
SETTINGS = {"schemas.settings.Settings", "schemas.settings.load", "schemas.settings.root.Settings"}
LONGEST = 450
CLAUSES = {"What", "Whether", "How", "Who", "Whom", "Whose", "Where", "When"}
MODULES = 300
SHORT = 3
"""Modules of less than 60 lines, beside packages' own and the program's: each is one to merge."""
BUDGET = {
    "schemas": 5085,
    "operators.runtime": 1156,
    "operators.text": 3524,
    "operators.mapping": 1485,
    "operators.ranking": 2649,
    "operators.access": 577,
    "operators.caching": 588,
    "operators.evaluation": 494,
    "operators.experiments": 491,
    "operators.wire": 667,
    "operators.query": 3675,
    "operators.telemetry": 652,
    "operators.clients": 5143,
    "operators.delivery": 4626,
    "operators.collections": 1353,
    "operators.stages": 2361,
    "operators.indexing": 1474,
    "flows.assembly": 1191,
    "flows.search": 54,
    "flows.indexing": 27,
    "flows.feedback": 24,
    "flows.process": 960,
    "flows.cli": 6636,
}
"""Room -> its most non-blank lines. A number may only be lowered: a mend that raises one lacks an idea."""
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "shared", "base", "core"}


def sources(*folders: str) -> dict[str, str]:
    """Module name -> source text, of every module in the folders."""
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text(encoding="utf-8")
    return found


def imported(module: str, source: str) -> Iterator[str]:
    """Every module that a source imports anywhere in it: at the top, in functions, under TYPE_CHECKING, relatively."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def room(name: str) -> str | None:
    """The room that a module, or a name in it, belongs to; None for what is not the product's."""
    return next((each for each in LEVEL if _within(name, (each,))), None)


def roomless(modules: dict[str, str]) -> list[str]:
    """Modules that stand in no room; packages that only hold rooms are none."""
    return [name for name in modules if name not in {"operators", "flows"} and room(name) is None]


def upward(modules: dict[str, str]) -> list[str]:
    """Imports of a room of the same level or above, and any of tests or benchmarks."""
    wrong = []
    for module, source in modules.items():
        own = room(module)
        for name in imported(module, source):
            other = room(name)
            beside = own is not None and other is not None and other != own and LEVEL[other] >= LEVEL[own]
            if beside or name.split(".")[0] in OUTSIDE:
                wrong.append(f"{module} imports {name}")
    return wrong


def impure(modules: dict[str, str]) -> list[str]:
    """Imports of pure modules that are not of the standard library, numpy, schemas or a pure room."""
    wrong = []
    for module, source in modules.items():
        if not _within(module, (*PURE, *PURE_MODULES)):
            continue
        for name in imported(module, source):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names | {"numpy", "schemas"} and not _within(name, (*PURE, *PURE_MODULES)):
                wrong.append(f"{module} imports {name}")
    return wrong


def beside_delivery(modules: dict[str, str]) -> list[str]:
    """Imports of a Kafka client outside the delivery."""
    return [
        f"{module} imports {name}"
        for module, source in modules.items()
        for name in imported(module, source)
        if name.split(".")[0] in KAFKA_CLIENTS and not _within(module, ("operators.delivery",))
    ]


def reads_settings(modules: dict[str, str]) -> list[str]:
    """Imports of the whole configuration below the assembly, and ways to build a part from settings there."""
    wrong = []
    for module, source in modules.items():
        if not _within(module, ("operators",)):
            continue
        wrong += [f"{module} imports {name}" for name in imported(module, source) if name in SETTINGS]
        wrong += [
            f"{module}: {node.name}.of builds from settings"
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.ClassDef) and any(_from_settings(each) for each in node.body)
        ]
    return wrong


def _from_settings(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.FunctionDef)
        and node.name == "of"
        and any("Settings" in ast.unparse(each.annotation) for each in node.args.args if each.annotation is not None)
    )


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def too_long(modules: dict[str, str]) -> list[str]:
    """Modules with more than LONGEST lines."""
    return [f"{name}: {lines}" for name, source in modules.items() if (lines := source.count("\n")) > LONGEST]


def nameless(modules: dict[str, str]) -> list[str]:
    """Modules and packages whose name says nothing."""
    return [name for name in modules if NAMELESS & set(name.split("."))]


def test_every_module_has_a_room() -> None:
    """`operators` and `flows` hold packages only, beside the two diagrams."""
    assert roomless(sources(*PRODUCT)) == []
    assert roomless({"operators.fuse": "", "flows.cli.run": "", "operators": ""}) == ["operators.fuse"]


def test_imports_point_down() -> None:
    """No room imports one of its own level or above, wherever in the module the import stands."""
    assert upward(sources(*PRODUCT)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import operators.stages.fuse",
        "from operators.clients.qdrant import client",
        "from operators.delivery.sink import Delivery",
        "def late():\n    from flows import search",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from operators.stages import fuse",
        "from tests import conftest",
    ],
)
def test_an_upward_import_is_seen(planted: str) -> None:
    """A planted import against the direction is reported, in a function and under TYPE_CHECKING too."""
    assert len(upward({"operators.runtime.planted": planted})) == 1
    assert upward({"flows.cli.planted": planted.replace("tests", "flows.process")}) == []


def test_rooms_of_a_level_do_not_import_each_other() -> None:
    """Clients know no delivery, and ranking knows no caching."""
    assert upward({"operators.clients.planted": "from operators.delivery import sink"})
    assert upward({"operators.ranking.planted": "import operators.caching.keys"})


def test_pure_rooms_import_nothing_impure() -> None:
    """A pure module imports the standard library, numpy, schemas and pure modules only."""
    modules = sources("operators")
    some = {"operators.ranking.fusion", "operators.query.in_flight", "operators.runtime.batching.backlog"}
    assert {name for name in modules if _within(name, (*PURE, *PURE_MODULES))} >= {*PURE, *PURE_MODULES, *some}
    assert impure(modules) == []


@pytest.mark.parametrize(
    "planted", ["import orjson", "from operators.telemetry.traces import QueryTrace", "def late():\n    import httpx"]
)
def test_an_impure_import_is_seen(planted: str) -> None:
    """A planted import of an engine, a client or the dataflow into a pure module is reported."""
    assert len(impure({"operators.ranking.planted": planted})) == 1
    assert len(impure({"operators.delivery.tracker": planted})) == 1
    assert impure({"operators.stages.fuse": planted}) == []


def test_kafka_clients_stay_in_the_delivery() -> None:
    """Nothing but the delivery imports a Kafka client; a planted import is reported."""
    assert beside_delivery(sources(*PRODUCT)) == []
    assert beside_delivery({"flows.cli.planted": "import kafka", "operators.delivery.planted": "import kafka"}) == [
        "flows.cli.planted imports kafka"
    ]


def test_settings_are_read_by_the_assembly() -> None:
    """Below the assembly no part knows the whole configuration, or builds itself from settings."""
    assert reads_settings(sources(*PRODUCT)) == []
    planted = "class A:\n    @classmethod\n    def of(cls, settings: QdrantSettings): ..."
    assert len(reads_settings({"operators.query.planted": planted})) == 1
    assert len(reads_settings({"operators.query.planted": "from schemas.settings import Settings"})) == 1
    assert reads_settings({"flows.assembly.planted": planted}) == []


def test_benchmarks_import_no_tests() -> None:
    """`bench` imports nothing of `tests`; what both need is in `bench`."""
    imports = [name for module, source in sources("bench").items() for name in imported(module, source)]
    assert [name for name in imports if _within(name, ("tests",))] == []


def test_modules_are_short() -> None:
    """Every module, tests included, has at most 450 lines."""
    assert too_long(sources(*PRODUCT, "tests", "bench")) == []


def unclear(modules: dict[str, str]) -> list[str]:
    """Docstrings, those of attributes and constants included, that begin with a clause in place of a subject."""
    return [
        f"{module}: {node.value.value[:60]}"
        for module, source in modules.items()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and node.value.value.split(" ")[0] in CLAUSES
    ]


def test_docstrings_begin_with_their_subject() -> None:
    """None begins with What, Whether, How and the like, tests and benchmarks included."""
    assert unclear(sources(*PRODUCT, "tests", "bench")) == []
    planted = '"""What it is."""\ndef f(): "True if it is."\nF = 1\n"""Where it is."""'
    assert unclear({"planted": planted}) == ["planted: What it is.", "planted: Where it is."]


def test_modules_are_few() -> None:
    """The product has at most MODULES, of which at most SHORT have less than 60 lines."""
    modules = sources(*PRODUCT)
    assert len(modules) <= MODULES
    whole = (each for each in modules if not (ROOT / each.replace(".", "/")).is_dir() and not each.endswith("__main__"))
    short = [each for each in whole if modules[each].count("\n") < 60]
    assert len(short) <= SHORT, short


def lines(modules: dict[str, str]) -> dict[str, int]:
    """The non-blank lines of each room."""
    found = dict.fromkeys(LEVEL, 0)
    for module, source in modules.items():
        if (where := room(module)) is not None:
            found[where] += sum(1 for line in source.splitlines() if line.strip())
    return found


def test_a_room_keeps_its_budget() -> None:
    """No room has more lines than BUDGET, and a budget that a room no longer needs is lowered: 30 lines stay free."""
    found = lines(sources(*PRODUCT))
    over = {
        where: f"{found[where]} of {most}: take lines away" for where, most in BUDGET.items() if found[where] > most
    }
    under = {where: f"{found[where]} of {most}: lower it" for where, most in BUDGET.items() if found[where] < most - 30}
    assert over | under == {}, over | under
    assert lines({"operators.wire.planted": "a = 1\n\nb = 2\n"})["operators.wire"] == 2


def test_a_long_module_is_seen() -> None:
    """A module of 451 lines is reported, one of 450 isn't."""
    assert too_long({"long": "\n" * 451, "short": "\n" * 450}) == ["long: 451"]


def test_names_say_something() -> None:
    """No module or package is a drawer: utils, helpers, common, misc, manager and the like."""
    assert nameless(sources(*PRODUCT, "tests", "bench")) == []
    assert nameless({"operators.utils": "", "flows.common.feeding": "", "schemas.query": ""}) == [
        "operators.utils",
        "flows.common.feeding",
    ]
