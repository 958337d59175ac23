"""Changes to a model's graph that leave its results as they are: it takes less time.

Beside them run the optimisers of onnxruntime, which don't know these.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import onnx

_EPSILON: Final = 1e-12
"""Of an operator that adds and norms, where it does not say another."""

_BY_TOKEN: Final = frozenset({"Add", "BiasGelu", "LayerNormalization", "MatMul"})
"""Operators whose result for a token follows from that token alone, if what else they take is constant."""

_OF_TOKENS: Final = frozenset({"Attention", "LayerNormalization"})
"""Operators that give a vector for each token."""


def divide_norms(model: "onnx.ModelProto") -> None:
    """Replace each operator that adds and norms a layer by one for each, which take a quarter of its time together."""
    from onnx import helper

    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if node.op_type == "SkipLayerNormalization" and not any(node.output[1:]):
            entry, residual, *norm = node.input[:4]
            for number, added in enumerate(filter(None, (*node.input[4:], residual))):
                total = f"{node.output[0]}.sum.{number}"
                nodes.append(helper.make_node("Add", [entry, added], [total]))
                entry = total
            epsilon = [each.f for each in node.attribute if each.name == "epsilon"] or [_EPSILON]
            nodes.append(
                helper.make_node("LayerNormalization", [entry, *norm], node.output[:1], axis=-1, epsilon=epsilon[0])
            )
        else:
            nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def compute_one_token(model: "onnx.ModelProto") -> None:
    """Compute the end of the last layer for one token alone where no other is read, as by a classifier.

    The end begins behind the layer's attention, by which tokens have something from each other.
    """
    from onnx import helper

    graph = model.graph
    constants = {each.name: len(each.dims) for each in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    readers: dict[str, list[str]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node.output[0])
    for name, count in count_reads(graph).items():
        if count > len(readers.get(name, ())):
            # By an output, or in the graph of a branch or a loop.
            readers.setdefault(name, []).append("")
    for chosen in [node for node in graph.node if _chooses_token(node, constants)]:
        alone = {chosen.output[0]}
        for node in reversed(graph.node):
            if _is_by_token(node, constants) and alone.issuperset(readers.get(node.output[0], [""])):
                alone.add(node.output[0])
        moved = [node for node in graph.node if node.output[0] in alone - {chosen.output[0]}]
        entries = {name for node in moved for name in node.input} - alone - constants.keys()
        if not moved or any(name not in makers or makers[name].op_type not in _OF_TOKENS for name in entries):
            continue
        rows = {name: f"{name}.one" for name in entries} | {chosen.input[0]: chosen.output[0]}
        nodes = [node for node in graph.node if node.output[0] not in alone]
        place = 1 + max(index for index, node in enumerate(nodes) if entries.intersection(node.output))
        gathers = [
            helper.make_node("Gather", [name, chosen.input[1]], [rows[name]], axis=1) for name in sorted(entries)
        ]
        for node in moved:
            for names in (node.input, node.output):
                names[:] = [rows.get(name, name) for name in names]
        nodes[place:place] = [*gathers, *moved]
        del graph.node[:]
        graph.node.extend(nodes)


def count_reads(graph: "onnx.GraphProto") -> Counter[str]:
    """The number of times that each value is read: by nodes, those of inner graphs among them, and as an output."""
    reads = Counter(each.name for each in graph.output)
    for node in walk_nodes(graph):
        reads.update(node.input)
    return reads


def walk_nodes(graph: "onnx.GraphProto | onnx.FunctionProto") -> "Iterator[onnx.NodeProto]":
    """The graph's nodes, each before those of the graphs within it, such as the branches of an If."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from walk_nodes(inner)


def _chooses_token(node: "onnx.NodeProto", constants: "Mapping[str, int]") -> bool:
    axes = [each.i for each in node.attribute if each.name == "axis"]
    return node.op_type == "Gather" and axes == [1] and node.input[1] in constants


def _is_by_token(node: "onnx.NodeProto", constants: "Mapping[str, int]") -> bool:
    if node.op_type not in _BY_TOKEN or len(node.output) > 1:
        return False
    if any(each.name == "axis" and each.i != -1 for each in node.attribute):
        return False
    ranks = [constants.get(name) for name in node.input]
    if node.op_type == "Add":
        # The values of two layers, or a vector.
        return set(ranks) <= {None, 1}
    return ranks[0] is None and set(ranks[1:]) == {2 if node.op_type == "MatMul" else 1}
