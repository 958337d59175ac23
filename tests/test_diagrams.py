"""The diagrams: the flows' modules read as what they draw, and no stream of a stage is left out."""

import ast

import pytest

from tests.test_layout import sources

DIAGRAMS = ("flows.search", "flows.indexing")

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


def logic(source: str) -> list[str]:
    """What a diagram has beyond declarations, assignments, calls and returns; `for` only inside a generator."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        filtering = isinstance(node, ast.comprehension) and node.ifs
        if isinstance(node, LOGIC) or filtering:
            wrong.append(f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}")
    return wrong


def unmerged(source: str, stages: set[str], stream: str, step: str) -> list[str]:
    """Variables bound to a stage's call whose `stream` isn't an argument of `merge(step, ...)`.

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
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "merge" and _first(node) == step:
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
    assert unmerged(flow + "m = merge('dead', a.dead, b.dead)", stages, "dead", "dead") == []
    assert unmerged(flow + "m = merge('dead', a.dead)", stages, "dead", "dead") == ["b"]
    assert unmerged(flow + "m = merge('dead', a.dead, b.answered)", stages, "dead", "dead") == ["b"]
    merge = "m = merge('dead', *(s.dead for s in t))"
    assert unmerged(flow + "t = (a, b)\n" + merge, stages, "dead", "dead") == []
    assert unmerged(flow + "t = (a,)\n" + merge, stages, "dead", "dead") == ["b"]
