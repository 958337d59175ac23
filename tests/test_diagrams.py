"""The diagrams: the flows' modules read as what they draw, and no stage's stream is left out."""

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
    ast.GeneratorExp,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)


def logic(source: str) -> list[str]:
    """What a diagram has beyond declarations, assignments, calls and returns."""
    nodes = ast.walk(ast.parse(source))
    return [
        f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}" for node in nodes if isinstance(node, LOGIC)
    ]


def chain(source: str) -> list[str]:
    """What keeps the steps of a flow from being one chain: a stream that no step, or more than one, takes on."""
    (flow,) = (node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef))
    made = [
        node.targets[0].id
        for node in flow.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Call)
    ]
    streams = [name for name in made if name != "flow"]
    used = [node.id for node in ast.walk(flow) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    return [name for name in streams if used.count(name) != 1]


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
    """A stage whose stream nobody takes, and one whose stream two take, are reported."""
    flow = "def f(p):\n    flow = Dataflow('f')\n    a = read('a', flow)\n    b = admit('b', a)\n"
    assert chain(flow + "    op.output('out', b)\n    return flow") == []
    assert chain(flow + "    op.output('out', a)\n    return flow") == ["a", "b"]
