"""Graphs that take less time: their results stay, and what is not known to keep them is left alone."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench import random_bert
from operators.clients.local import inference
from operators.clients.local.quantisation import FUSED, compute_one_token, divide_norms

WIDTH: Final = 8


def logits(model: onnx.ModelProto, feeds: dict[str, Any]) -> np.ndarray:
    """The first output of the graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return np.asarray(session.run(None, feeds)[0])


def operators(model: onnx.ModelProto) -> list[str]:
    """The operators in the order in which they run."""
    return [node.op_type for node in model.graph.node]


def vectors(*names: str) -> list[onnx.TensorProto]:
    """Constant vectors."""
    chance = np.random.default_rng(0)
    return [numpy_helper.from_array(chance.standard_normal(WIDTH, np.float32), name) for name in names]


def graph(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], outputs: list[str]) -> onnx.ModelProto:
    """A graph from `entry` and `residual`, each three texts of five tokens."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 5, WIDTH]) for name in ("entry", "residual")]
    found = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
    made = helper.make_graph(nodes, "layer", inputs, found, constants)
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def entries() -> dict[str, np.ndarray]:
    """Random values of both inputs."""
    chance = np.random.default_rng(1)
    return {name: chance.standard_normal((3, 5, WIDTH), np.float32) for name in ("entry", "residual")}


@pytest.mark.parametrize("given", [["gamma"], ["gamma", "beta"], ["gamma", "beta", "bias"], ["gamma", "", "bias"]])
def test_a_divided_norm_is_the_same(given: list[str]) -> None:
    """With whatever of its vectors it has: its weights, its shift, a bias of the sum."""
    node = helper.make_node(
        "SkipLayerNormalization", ["entry", "residual", *given], ["output"], domain=FUSED, epsilon=1e-5
    )
    model = graph([node], vectors("gamma", "beta", "bias"), ["output"])
    expected = logits(model, entries())
    divide_norms(model)
    assert operators(model) == ["Add"] * (2 if "bias" in given else 1) + ["LayerNormalization"]
    assert np.allclose(logits(model, entries()), expected, atol=1e-5)


def test_a_norm_whose_sum_is_read_stays_whole() -> None:
    """It gives more than the norm."""
    node = helper.make_node(
        "SkipLayerNormalization", ["entry", "residual", "gamma"], ["output", "", "", "sum"], domain=FUSED
    )
    model = graph([node], vectors("gamma"), ["output", "sum"])
    divide_norms(model)
    assert operators(model) == ["SkipLayerNormalization"]


@pytest.mark.parametrize("token_types", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_the_end_of_the_last_layer_is_computed_for_one_token(tmp_path: Path, layers: int, token_types: bool) -> None:
    """The logits stay; all products behind the last attention are of one row a pair."""
    random_bert.write(tmp_path, layers=layers, token_types=token_types)
    inference.session(tmp_path / "model.onnx", optimise=True, written=tmp_path / "optimised.onnx")
    model = onnx.load(tmp_path / "optimised.onnx")
    ids = np.random.default_rng(layers).integers(5, 9, (4, 7))
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)} | (
        {"token_type_ids": np.zeros_like(ids)} if token_types else {}
    )
    expected = logits(model, feeds)
    compute_one_token(model)
    assert np.allclose(logits(model, feeds), expected, atol=1e-5)
    attentions = [index for index, name in enumerate(operators(model)) if name == "Attention"]
    behind = operators(model)[attentions[-1] + 1 :]
    assert behind[:2] == ["Gather", "Gather"]
    assert "Gather" not in behind[2:]
    assert behind.count("MatMul") == 3


def last_layer(output: str = "token") -> list[onnx.NodeProto]:
    """A norm, a product beside it, their sum, and one token of it."""
    return [
        helper.make_node("LayerNormalization", ["entry", "gamma", "beta"], ["normed"]),
        helper.make_node("MatMul", ["normed", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["biased"]),
        helper.make_node("Add", ["biased", "normed"], ["sum"]),
        helper.make_node("Gather", ["sum", "first"], [output], axis=1),
    ]


CONSTANTS: Final = [
    *vectors("gamma", "beta", "bias"),
    numpy_helper.from_array(np.eye(WIDTH, dtype=np.float32) * 3, "weight"),
    numpy_helper.from_array(np.array(0, np.int64), "first"),
]


def test_a_norm_that_others_read_is_where_it_begins() -> None:
    """Here the norm is an output as well: one token of it is enough for what is behind it."""
    model = graph(last_layer(), CONSTANTS, ["token", "normed"])
    expected = logits(model, entries())
    compute_one_token(model)
    assert operators(model) == ["LayerNormalization", "Gather", "MatMul", "Add", "Add"]
    assert np.allclose(logits(model, entries()), expected, atol=1e-5)


def test_each_choice_of_a_token_is_looked_at() -> None:
    """A choice behind another one, with nothing to move, stays as it is."""
    nodes = [*last_layer(), helper.make_node("Gather", ["normed", "first"], ["other"], axis=1)]
    model = graph(nodes, CONSTANTS, ["token", "other"])
    expected = logits(model, entries())
    compute_one_token(model)
    assert operators(model) == ["LayerNormalization", "Gather", "MatMul", "Add", "Add", "Gather"]
    assert np.allclose(logits(model, entries()), expected, atol=1e-5)


@pytest.mark.parametrize("kind", ["all", "places", "axis", "mean", "entries", "text"])
def test_where_more_than_a_token_counts_nothing_changes(kind: str) -> None:
    """All tokens are read, a constant differs by token, or it isn't known which part of a value is a token's."""
    nodes, constants, outputs = last_layer(), list(CONSTANTS), ["token", "normed"]
    match kind:
        case "all":
            outputs.append("sum")
        case "places":
            nodes[3].input[1] = "places"
            constants.append(numpy_helper.from_array(np.ones((5, WIDTH), np.float32), "places"))
        case "axis":
            nodes[1:4] = [helper.make_node("LayerNormalization", ["normed", "gamma"], ["sum"], axis=2)]
        case "mean":
            nodes[3] = helper.make_node("LayerNormalization", ["biased", "gamma", "beta"], ["sum", "mean"])
            outputs.append("mean")
        case "entries":
            nodes[3].input[1] = "doubled"
            nodes.insert(0, helper.make_node("Add", ["residual", "residual"], ["doubled"]))
            outputs.append("doubled")
        case _:
            nodes[-1] = helper.make_node("Gather", ["sum", "first"], ["token"], axis=0)
    model = graph(nodes, constants, outputs)
    before = model.SerializeToString()
    compute_one_token(model)
    assert model.SerializeToString() == before
