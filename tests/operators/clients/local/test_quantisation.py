"""Quantised graphs: near the original, without an overflow, and only where that is known to work."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from operators.clients.local import quantisation
from operators.clients.local.quantisation import FUSED, Bits, balance, bits_of, chosen, has_dot_products

WIDE, NARROW = 64, 8


def run(model: onnx.ModelProto, entry: np.ndarray) -> np.ndarray:
    """The output of the graph."""
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"entry": entry})
    return np.asarray(found)


def quantise(model: onnx.ModelProto, bits: Bits) -> onnx.ModelProto:
    """The graph with weights of these bits."""
    with tempfile.TemporaryDirectory() as scratch:
        return onnx.load(quantisation.quantise(model, bits, Path(scratch)))


def integers(model: onnx.ModelProto) -> int:
    """The number of products of integers."""
    return sum(node.op_type in {"MatMulInteger", "QAttention"} for node in model.graph.node)


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
@given(seed=st.integers(0, 2**32 - 1), bits=st.sampled_from([7, bits_of("int8")]))
def test_a_quantised_product_is_near_the_original(kind: str, attributes: dict[str, int], seed: int, bits: Bits) -> None:
    """Each row of the result points where the original's does, within a cosine of .99, also through zero columns."""
    chance = np.random.default_rng(seed)
    weight = chance.standard_normal((WIDE, WIDE), np.float32)
    weight[:, 3] = 0
    model = product(kind, weight.T if attributes else weight, **attributes)
    entry = chance.standard_normal((5, WIDE), np.float32)
    expected = run(model, entry)
    quantised = quantise(model, bits)
    assert integers(quantised) == 1
    found = run(quantised, entry)
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.99
    assert not found[:, 3].any()


SHARED: dict[str, list[tuple[str, list[str], dict[str, Any]]]] = {
    "twice": [("MatMul", ["entry", "w"], {}), ("MatMul", ["0", "w"], {})],
    "both ways": [("MatMul", ["entry", "w"], {}), ("Gemm", ["0", "w"], {"transB": 1})],
    "both ways, the other first": [("Gemm", ["entry", "w"], {"transB": 1}), ("Gemm", ["0", "w"], {})],
    "a table": [("MatMul", ["entry", "w"], {}), ("Gather", ["w", "five"], {}), ("Add", ["0", "1"], {})],
    "a factor": [("MatMul", ["entry", "w"], {}), ("Mul", ["w", "w"], {}), ("MatMul", ["0", "1"], {})],
    "transposed": [("MatMul", ["entry", "w"], {}), ("Transpose", ["w"], {}), ("MatMul", ["0", "1"], {})],
    "on the left": [("MatMul", ["entry", "w"], {}), ("MatMul", ["w", "v"], {}), ("MatMul", ["0", "1"], {})],
    "in a branch": [("MatMul", ["entry", "w"], {}), ("If", ["yes"], {}), ("MatMul", ["0", "1"], {})],
    "added in a branch": [("MatMul", ["entry", "w"], {}), ("Add", ["0", "bias"], {}), ("If", ["yes"], {"read": "0"})],
}


def shared(name: str, chance: np.random.Generator) -> onnx.ModelProto:
    """A graph in which a weight, or a product, has several readers; the last node gives the output."""
    kinds = SHARED[name]
    made = product("MatMul", np.zeros((1, 1), np.float32))
    del made.graph.node[:], made.graph.initializer[:]
    for number, (kind, inputs, attributes) in enumerate(kinds):
        output = "output" if number == len(kinds) - 1 else str(number)
        if kind == "If":
            read = attributes.get("read", "w")
            inner = helper.make_graph(
                [helper.make_node("Neg", [read], ["read"])], "branch", [], [helper.make_empty_tensor_value_info("read")]
            )
            attributes = {"then_branch": inner, "else_branch": inner}
        made.graph.node.append(helper.make_node(kind, inputs, [output], **attributes))
    constants: dict[str, Any] = {
        "w": chance.standard_normal((WIDE, WIDE), np.float32) / 8,
        "v": chance.standard_normal((WIDE, WIDE), np.float32) / 8,
        "bias": chance.standard_normal(WIDE, np.float32),
        "five": np.array([0, 7, 7, 3, 1], np.int64),
        "yes": np.array(True),
    }
    made.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in constants.items())
    return made


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("seed", range(3))
def test_a_weight_with_several_readers_gives_each_what_it_reads(name: str, seed: int) -> None:
    """The result stays near the original's, whatever else reads a quantised weight, and in which direction."""
    chance = np.random.default_rng(seed)
    model = shared(name, chance)
    entry = chance.standard_normal((5, WIDE), np.float32)
    expected = run(model, entry)
    quantised = quantise(model, 7)
    assert integers(quantised) >= 1
    found = run(quantised, entry)
    assert (found * expected).sum() / np.linalg.norm(found) / np.linalg.norm(expected) > 0.99


@pytest.mark.parametrize("ir_version", [3, 8, 10])
@pytest.mark.parametrize(("kind", "attributes"), [("MatMul", {}), ("Gemm", {}), ("Gemm", {"transB": 1})])
def test_a_weight_that_is_an_input_too_is_quantised(kind: str, attributes: dict[str, int], ir_version: int) -> None:
    """Older exports list them: the graph of 8 bits has no such input, and needs none."""
    chance = np.random.default_rng(0)
    model = product(kind, chance.standard_normal((WIDE, WIDE), np.float32), **attributes)
    model.graph.input.append(helper.make_tensor_value_info("weight", TensorProto.FLOAT, [WIDE, WIDE]))
    model.ir_version = ir_version
    entry = chance.standard_normal((5, WIDE), np.float32)
    expected = run(model, entry)
    quantised = quantise(model, 7)
    assert integers(quantised) == 1
    assert [each.name for each in quantised.graph.input] == ["entry"]
    found = run(quantised, entry)
    assert (found * expected).sum() / np.linalg.norm(found) / np.linalg.norm(expected) > 0.99


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("shape", [None, (WIDE,), (1, WIDE), (), (1,), (1, 1), (WIDE, 1)])
def test_a_product_that_adds_something_is_quantised(shape: tuple[int, ...] | None, transposed: int) -> None:
    """Whatever its shape, the result is near the original's."""
    chance = np.random.default_rng(0)
    model = product("Gemm", chance.standard_normal((WIDE, WIDE), np.float32), transB=transposed)
    if shape is not None:
        model.graph.node[0].input.append("bias")
        bias = np.asarray(10 * chance.standard_normal(shape), np.float32)
        model.graph.initializer.append(numpy_helper.from_array(bias, "bias"))
    entry = chance.standard_normal((WIDE, WIDE), np.float32)
    expected = run(model, entry)
    quantised = quantise(model, 7)
    assert integers(quantised) == 1
    found = run(quantised, entry)
    assert (found * expected).sum() / np.linalg.norm(found) / np.linalg.norm(expected) > 0.99


@given(st.dictionaries(st.integers(0, WIDE - 1), st.sampled_from([2.0, 4.0, 8.0])), st.integers(0, 2**32 - 1))
def test_a_balanced_product_is_the_same(outliers: dict[int, float], seed: int) -> None:
    """Factors that are powers of two change no bit of a product of 32 bits."""
    chance = np.random.default_rng(seed)
    model = product("MatMul", chance.standard_normal((WIDE, WIDE), np.float32))
    entry = chance.standard_normal((5, WIDE), np.float32)
    expected = run(model, entry)
    balance(model, {"entry": outliers, "another": {0: 2.0}})
    assert np.array_equal(run(model, entry), expected)


def test_a_large_channel_takes_no_bits_of_the_others() -> None:
    """With its channel divided, a product of 8 bits is ten times nearer to that of 32."""
    chance = np.random.default_rng(0)
    weight = chance.standard_normal((WIDE, WIDE), np.float32)
    weight[7] /= 64
    entry = chance.standard_normal((5, WIDE), np.float32)
    entry[:, 7] *= 64
    plain, balanced = product("MatMul", weight), product("MatMul", weight)
    expected = run(plain, entry)
    balance(balanced, {"entry": {7: 64.0}})
    near, far = (np.abs(run(quantise(model, 7), entry) - expected).mean() for model in (balanced, plain))
    assert 10 * near < far


def test_no_sum_of_two_products_overflows_16_bits() -> None:
    """The largest weights of 7 bits times the largest activations are in range where two are added in 16 bits."""
    model = product("MatMul", np.linspace(-9, 9, WIDE * WIDE, dtype=np.float32).reshape(WIDE, WIDE))
    constants = [each for each in quantise(model, 7).graph.initializer if each.data_type == TensorProto.INT8]
    (weight,) = [numpy_helper.to_array(each) for each in constants if len(each.dims) == 2]
    assert 2 * 255 * int(np.abs(weight.astype(int)).max()) < 2**15


@pytest.mark.parametrize(
    ("kind", "attributes", "columns"),
    [("MatMul", {}, NARROW), ("Gemm", {"alpha": 2.0}, WIDE), ("Gemm", {"transA": 1}, WIDE)],
)
def test_what_is_no_plain_product_stays_as_it_is(kind: str, attributes: dict[str, int], columns: int) -> None:
    """A classifier's few columns and a product with factors are left alone."""
    model = product(kind, np.ones((WIDE, columns), np.float32), **attributes)
    assert not integers(quantise(model, 8))


def test_nothing_is_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container, nothing but the cache may be writable; where temporary files go otherwise stays as it was."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    quantisation.quantise(product("MatMul", np.ones((WIDE, WIDE), np.float32)), 8, tmp_path)
    assert ([each.name for each in tmp_path.iterdir()], tempfile.tempdir) == (["quantised.onnx"], "/nowhere")


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
    assert (bits_of("int8", path), bits_of("float32", path)) == (8 if found else 7, 32)


def test_a_wanted_precision_is_taken() -> None:
    """Whatever the processor can, a precision that is named is used; `auto` follows the processor."""
    assert (chosen("int8"), chosen("float32")) == ("int8", "float32")
    assert chosen("auto") == ("int8" if has_dot_products() else "float32")
