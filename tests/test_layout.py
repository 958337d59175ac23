"""The layout that the code promises: who imports whom, what is pure, how long a module is, what a diagram holds."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("schemas", "operators", "flows")
"""Each may import those before it, and itself."""

PURE = (
    "operators.ranking",
    "operators.cascade",
    "operators.evaluation",
    "operators.batching",
    "operators.delivery.tracker",
)
DIAGRAMS = ("flows.search", "flows.indexing")
LONGEST = 299
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers", "shared", "base", "core"}

LOGIC = (
    ast.Try,
    ast.TryStar,
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.With,
    ast.AsyncWith,
    ast.Match,
    ast.Raise,
    ast.Assert,
    ast.Lambda,
    ast.BoolOp,
    ast.Compare,
    ast.BinOp,
    ast.AugAssign,
    ast.NamedExpr,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)


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


def upward(modules: dict[str, str]) -> list[str]:
    """Imports against the direction schemas <- operators <- flows, and any of tests or benchmarks."""
    wrong = []
    for module, source in modules.items():
        allowed = LAYERS[: LAYERS.index(module.split(".")[0]) + 1]
        for name in imported(module, source):
            top = name.split(".")[0]
            if top in {*LAYERS, "tests", "bench"} and top not in allowed:
                wrong.append(f"{module} imports {name}")
    return wrong


def impure(modules: dict[str, str]) -> list[str]:
    """Imports of pure modules that aren't of the standard library, numpy, schemas or a pure module."""
    wrong = []
    for module, source in modules.items():
        if not _within(module, PURE):
            continue
        for name in imported(module, source):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names | {"numpy", "schemas"} and not _within(name, PURE):
                wrong.append(f"{module} imports {name}")
    return wrong


def _within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def too_long(modules: dict[str, str]) -> list[str]:
    """Modules with more than LONGEST lines."""
    return [f"{name}: {lines}" for name, source in modules.items() if (lines := source.count("\n")) > LONGEST]


def nameless(modules: dict[str, str]) -> list[str]:
    """Modules and packages whose name says nothing."""
    return [name for name in modules if NAMELESS & set(name.split("."))]


def logic(source: str) -> list[str]:
    """What a diagram has beyond declarations, assignments, calls and returns; `for` only inside a generator."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        filtering = isinstance(node, ast.comprehension) and node.ifs
        if isinstance(node, LOGIC) or filtering:
            wrong.append(f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}")
    return wrong


def unmerged(source: str, stages: set[str], stream: str, step: str) -> list[str]:
    """Variables bound to a stage's call whose `stream` isn't an argument of `op.merge(step, ...)`.

    `stages` are the names of the operators that return a Stage. A generator over a tuple of variables counts for each.
    """
    tree = ast.parse(source)
    variables: set[str] = set()
    tuples: dict[str, set[str]] = {}
    merged: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            target, value = node.targets[0].id, node.value
            if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in stages:
                variables.add(target)
            if isinstance(value, ast.Tuple):
                tuples[target] = {item.id for item in value.elts if isinstance(item, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "op.merge" and _first(node) == step:
            for argument in node.args[1:]:
                merged |= _streams(argument, stream, tuples)
    return sorted(variables - merged)


def _first(call: ast.Call) -> object:
    return call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None


def _streams(argument: ast.expr, stream: str, tuples: dict[str, set[str]]) -> set[str]:
    if isinstance(argument, ast.Starred) and isinstance(argument.value, ast.GeneratorExp):
        generator = argument.value
        names = tuples.get(ast.unparse(generator.generators[0].iter), set())
        takes = isinstance(generator.elt, ast.Attribute) and generator.elt.attr == stream
        return names if takes else set()
    if isinstance(argument, ast.Attribute) and argument.attr == stream and isinstance(argument.value, ast.Name):
        return {argument.value.id}
    return set()


def stage_operators() -> set[str]:
    """The functions under operators/ that return a Stage."""
    return {
        node.name
        for source in sources("operators").values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.returns and ast.unparse(node.returns).startswith("Stage[")
    }


def test_imports_point_one_way() -> None:
    """Nothing imports a layer above its own, wherever in the module the import stands."""
    assert upward(sources(*LAYERS)) == []


@pytest.mark.parametrize(
    "planted",
    [
        "import operators.fuse",
        "from operators.fuse import fused",
        "def late():\n    from flows import search",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from operators import fuse",
        "from tests import conftest",
    ],
)
def test_an_upward_import_is_seen(planted: str) -> None:
    """A planted import against the direction is reported, in a function and under TYPE_CHECKING too."""
    assert len(upward({"schemas.planted": planted})) == 1
    assert upward({"flows.planted": planted.replace("tests", "flows")}) == []


def test_pure_modules_import_nothing_impure() -> None:
    """Ranking, evaluation and the offset tracker import the standard library, numpy, schemas and themselves only."""
    modules = sources("operators")
    some = {"operators.ranking.fusion", "operators.batching.backlog"}
    assert {name for name in modules if _within(name, PURE)} >= {*PURE, *some}
    assert impure(modules) == []


@pytest.mark.parametrize(
    "planted", ["import orjson", "from operators.inflight import Origin", "def late():\n    import httpx"]
)
def test_an_impure_import_is_seen(planted: str) -> None:
    """A planted import of an engine, a client or the dataflow into a pure module is reported."""
    assert len(impure({"operators.ranking.planted": planted})) == 1
    assert len(impure({"operators.delivery.tracker": planted})) == 1
    assert impure({"operators.fuse": planted}) == []


def test_modules_are_short() -> None:
    """Every module, tests included, has fewer than 300 lines."""
    assert too_long(sources(*LAYERS, "tests", "bench")) == []


def test_a_long_module_is_seen() -> None:
    """A module of 300 lines is reported, one of 299 isn't."""
    assert too_long({"long": "\n" * 300, "short": "\n" * 299}) == ["long: 300"]


def test_names_say_something() -> None:
    """No module or package is a drawer: utils, helpers, common, misc, manager and the like."""
    assert nameless(sources(*LAYERS, "tests", "bench")) == []
    assert nameless({"operators.utils": "", "flows.common.feeding": "", "schemas.query": ""}) == [
        "operators.utils",
        "flows.common.feeding",
    ]


@pytest.mark.parametrize("module", DIAGRAMS)
def test_a_flow_reads_as_its_diagram(module: str) -> None:
    """The flows' modules hold assignments, calls and returns: no try, no branch, no loop, no lambda."""
    assert logic(sources("flows")[module]) == []


@pytest.mark.parametrize(
    "planted",
    [
        "try:\n    x = 1\nfinally:\n    y = 2",
        "if x:\n    y = 1",
        "for x in y:\n    z(x)",
        "x = a if b else c",
        "x = a or b",
        "x = f(lambda y: y)",
        "x = f(*(s.dead for s in t if s))",
        "x = [s.dead for s in t]",
    ],
)
def test_logic_in_a_diagram_is_seen(planted: str) -> None:
    """Each kind of planted logic is reported; a plain generator that feeds a merge is not."""
    assert logic(planted)
    assert logic("x = f(*(s.dead for s in t))") == []


@pytest.mark.parametrize("module", DIAGRAMS)
def test_every_dead_stream_reaches_the_dead_letters(module: str) -> None:
    """No stage of a flow keeps its dead messages to itself: each `.dead` is an argument of the dead merge."""
    source = sources("flows")[module]
    stages = stage_operators()
    assert len([name for name in stages if f"= {name}(" in source]) >= 3
    assert unmerged(source, stages, "dead", "dead") == []


def test_every_answered_stream_reaches_the_results() -> None:
    """No stage of the search flow keeps its answered queries to itself."""
    assert unmerged(sources("flows")["flows.search"], stage_operators(), "answered", "answered") == []


def test_a_dead_stream_that_is_left_out_is_seen() -> None:
    """A stage missing from the merge is reported, listed by name or by a tuple, and so is a merge of another stream."""
    flow = "a = decode('d', up)\nb = admit('a', a.on)\n"
    stages = {"decode", "admit"}
    assert unmerged(flow + "m = op.merge('dead', a.dead, b.dead)", stages, "dead", "dead") == []
    assert unmerged(flow + "m = op.merge('dead', a.dead)", stages, "dead", "dead") == ["b"]
    assert unmerged(flow + "m = op.merge('dead', a.dead, b.answered)", stages, "dead", "dead") == ["b"]
    merge = "m = op.merge('dead', *(s.dead for s in t))"
    assert unmerged(flow + "t = (a, b)\n" + merge, stages, "dead", "dead") == []
    assert unmerged(flow + "t = (a,)\n" + merge, stages, "dead", "dead") == ["b"]
