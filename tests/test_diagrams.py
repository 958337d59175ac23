"""The diagrams: the flows' modules read as what they draw, and no stage's stream is left out."""

import ast

import pytest

from tests.test_layout import sources

DIAGRAMS = ("flows.search", "flows.indexing", "flows.feedback")

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
    ast.GeneratorExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)


def logic(source: str) -> list[str]:
    """The statements of a diagram beyond declarations, assignments, calls and returns."""
    nodes = ast.walk(ast.parse(source))
    return [
        f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}" for node in nodes if isinstance(node, LOGIC)
    ]


def chain(source: str) -> list[str]:
    """The streams that break the chain of a flow's steps: no step takes them on, or several whose branches do not join.

    Branches join where one step takes the streams of all of them.
    """
    (flow,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    steps = [(_made(node), _names(node.value)) for node in flow.body if isinstance(node, ast.Assign | ast.Expr)]
    streams = [name for name, _ in steps if name not in {None, "flow", "p"}]

    def joined(name: str | None) -> bool:
        branches = {made for made, used in steps if name in used}
        return len(branches) == 1 or any(branches <= used for _, used in steps)

    takers = {name: sum(name in used for _, used in steps) for name in streams}
    return [name for name in streams if name and (not takers[name] or not joined(name))]


def _made(node: ast.Assign | ast.Expr) -> str | None:
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


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
        "x = [s.dead for s in t]",
    ],
)
def test_logic_in_a_diagram_is_seen(planted: str) -> None:
    """Each kind of planted logic is reported."""
    assert logic(planted)


@pytest.mark.parametrize("module", DIAGRAMS)
def test_the_stages_are_one_chain(module: str) -> None:
    """Each stage takes what the one before it passes on, so nothing that a stage answers or rejects can get lost."""
    assert chain(sources("flows")[module]) == []


def test_a_stream_that_is_left_out_is_seen() -> None:
    """A stage whose stream nobody takes is reported, and one whose stream parts into branches that do not join."""
    flow = "def f(p):\n    flow = Dataflow('f')\n    a = read('a', flow)\n    b = admit('b', a)\n"
    assert chain(flow + "    op.output('out', b)\n    return flow") == []
    assert chain(flow + "    op.output('out', a)\n    return flow") == ["a", "b"]
    branches = flow + "    c = leg('c', b)\n    d = leg('d', b)\n"
    assert chain(branches + "    op.output('out', fuse('e', c, d))\n    return flow") == []
    assert chain(branches + "    op.output('out', fuse('e', c))\n    return flow") == ["b", "d"]
