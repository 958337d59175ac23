"""Quantised graphs: near the original, the same on every processor, and only where that is known to work."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from operators.clients.local.quantisation import FUSED, chosen, has_dot_products, quantise

WIDE, NARROW = 64, 8


def run(model: onnx.ModelProto, entry: np.ndarray) -> np.ndarray:
    """The output of the graph."""
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"entry": entry})
    return np.asarray(found)


def product(kind: str, weight: np.ndarray, **attributes: Any) -> onnx.ModelProto:
    """A graph of one product."""
    entry, output = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", None]) for name in ("entry", "output")
    )
    node = helper.make_node(kind, ["entry", "weight"], ["output"], **attributes)
    graph = helper.make_graph([node], "product", [entry], [output], [numpy_helper.from_array(weight, "weight")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize(("kind", "attributes"), [("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1})])
@given(seed=st.integers(0, 2**32 - 1))
def test_a_quantised_product_is_near_the_original(kind: str, attributes: dict[str, int], seed: int) -> None:
    """Each row of the result points where the original's does, within a cosine of .99, also through zero columns."""
    chance = np.random.default_rng(seed)
    weight = chance.standard_normal((WIDE, WIDE), np.float32)
    weight[:, 3] = 0
    model = product(kind, weight.T if attributes else weight, **attributes)
    entry = chance.standard_normal((5, WIDE), np.float32)
    expected = run(model, entry)
    quantise(model)
    assert [node.op_type for node in model.graph.node] == ["DynamicQuantizeMatMul"]
    found = run(model, entry)
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.99
    assert not found[:, 3].any()


def test_no_sum_of_two_products_overflows_16_bits() -> None:
    """The largest weights times the largest activations are in range where two products are added in 16 bits."""
    model = product("MatMul", np.linspace(-9, 9, WIDE * WIDE, dtype=np.float32).reshape(WIDE, WIDE))
    quantise(model)
    (integers,) = [
        numpy_helper.to_array(each) for each in model.graph.initializer if each.data_type == TensorProto.INT8
    ][:1]
    assert 2 * 255 * int(np.abs(integers.astype(int)).max()) < 2**15


@pytest.mark.parametrize(
    ("kind", "attributes", "columns"),
    [("MatMul", {}, NARROW), ("Gemm", {"alpha": 2.0}, WIDE), ("Gemm", {"transA": 1}, WIDE)],
)
def test_what_is_no_plain_product_stays_as_it_is(kind: str, attributes: dict[str, int], columns: int) -> None:
    """A classifier's few columns and a product with factors are left alone."""
    model = product(kind, np.ones((WIDE, columns), np.float32), **attributes)
    before = model.SerializeToString()
    quantise(model)
    assert model.SerializeToString() == before


@pytest.mark.parametrize(
    ("flags", "found"),
    [("sse4_2 avx2 avx512_vnni", True), ("avx_vnni", True), ("amx_int8", True), ("fp asimddp", True), ("avx2", False)],
)
def test_the_processor_says_what_it_can(tmp_path: Path, flags: str, found: bool) -> None:
    """Instructions for 8-bit products are read from the system; where it tells nothing there are none."""
    path = tmp_path / "cpuinfo"
    assert not has_dot_products(path)
    path.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert has_dot_products(path) == found


def test_a_wanted_precision_is_taken() -> None:
    """Whatever the processor can, a precision that is named is used; `auto` follows the processor."""
    assert (chosen("int8"), chosen("float32")) == ("int8", "float32")
    assert chosen("auto") == ("int8" if has_dot_products() else "float32")
