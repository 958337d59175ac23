"""all-MiniLM-L6-v2 as an ONNX graph, written by hand from its weights, so that running it needs no PyTorch.

BERT with 6 layers, 12 heads, 384 dimensions. The three parts that take the time (attention, the residual sum with its
layer norm, the biased GELU) are onnxruntime's fused operators: its optimiser finds only some of them in the
corresponding standard operators, and takes 1.7 times as long for a query and four times as long to load.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from operators.clients.local.minilm.weights import SHA256
from schemas.errors import ConfigError

if TYPE_CHECKING:
    import onnx

VERSION = 1
"""Part of the cached file's name: raise it with every change to the graph."""

BUILT_SHA256 = "78e9fabe7d6ed762eb2983ee6502334c2bf9ea0c1aed2205c0f60d4791644631"
"""Of the graph's bytes: change it with the version."""

LAYERS = 6
HEADS = 12
DIMENSION = 384
MAX_TOKENS = 256
EPSILON = 1e-12
OPSET = 17
IR_VERSION = 8
FUSED = "com.microsoft"

Tensors = Mapping[str, NDArray[np.float32]]


def cached(directory: Path, load: Callable[[], Tensors]) -> Path:
    """Return the path of the graph's file in `directory`, built from `load()` unless its hash is right.

    Many processes may do this at once: a file appears whole or not at all. Raises ConfigError if the directory can't
    be written, and what `load` raises.
    """
    path = directory / f"all-MiniLM-L6-v2-{SHA256[:16]}-{VERSION}.onnx"
    if not _is_built(path):
        content = build(load()).SerializeToString()
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with TemporaryDirectory(dir=directory) as scratch:
                written = Path(scratch, path.name)
                written.write_bytes(content)
                os.replace(written, path)
        except OSError as error:
            raise ConfigError(
                f"embedder: the cache directory {directory} can't be written: {error.strerror}"
            ) from error
    return path


def _is_built(path: Path) -> bool:
    # Read piece by piece, and run from its file: onnxruntime keeps bytes that it is given, 90 MB for good.
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == BUILT_SHA256
    return False


def build(tensors: Tensors) -> "onnx.ModelProto":
    """Build the graph, which gives every token's vector.

    In: `input_ids` and `attention_mask`, int64, (batch, tokens). Out: `hidden`, float32, (batch, tokens, 384).
    A text has at most 256 tokens; `attention_mask` is 1 for a token and 0 for padding, which comes last.
    """
    # Only building needs the package, and importing it takes longer than loading a graph that is there.
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(name: str, value: NDArray[np.float32] | NDArray[np.int64]) -> str:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(name: str) -> str:
        return constant(name, tensors[name])

    def transposed(name: str) -> str:
        return constant(name, tensors[name].T)

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def add_norm(summed: str, residual: str, name: str, bias: str, output: str) -> str:
        inputs = [summed, residual, weight(f"{name}.weight"), weight(f"{name}.bias"), weight(bias)]
        return node("SkipLayerNormalization", inputs, output, domain=FUSED, epsilon=EPSILON)

    def layer(index: int, entry: str, output: str) -> str:
        name = f"encoder.layer.{index}"
        projections = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        qkv = [
            constant(f"{name}.qkv.weight", np.concatenate([tensors[f"{p}.weight"] for p in projections]).T),
            constant(f"{name}.qkv.bias", np.concatenate([tensors[f"{p}.bias"] for p in projections])),
        ]
        context = node("Attention", [entry, *qkv, "mask"], f"{name}.context", domain=FUSED, num_heads=HEADS)
        attended = node("MatMul", [context, transposed(f"{name}.attention.output.dense.weight")], f"{name}.attended")
        middle = add_norm(
            attended,
            entry,
            f"{name}.attention.output.LayerNorm",
            f"{name}.attention.output.dense.bias",
            f"{name}.middle",
        )
        wide = node("MatMul", [middle, transposed(f"{name}.intermediate.dense.weight")], f"{name}.wide")
        active = node("BiasGelu", [wide, weight(f"{name}.intermediate.dense.bias")], f"{name}.active", domain=FUSED)
        narrow = node("MatMul", [active, transposed(f"{name}.output.dense.weight")], f"{name}.narrow")
        return add_norm(narrow, middle, f"{name}.output.LayerNorm", f"{name}.output.dense.bias", output)

    node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    words = node("Gather", [weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    # Every token is of the first type, so its vector is part of the positions'.
    places = tensors["embeddings.position_embeddings.weight"][:MAX_TOKENS]
    places = places + tensors["embeddings.token_type_embeddings.weight"][0]
    start = constant("start", np.array([0], np.int64))
    node("Shape", ["input_ids"], "length", start=1, end=2)
    positions = node("Slice", [constant("places", places), start, "length", start], "positions")
    embedded = node("Add", [words, positions], "embedded")
    norm = "embeddings.LayerNorm"
    hidden = node(
        "LayerNormalization",
        [embedded, weight(f"{norm}.weight"), weight(f"{norm}.bias")],
        "entry",
        epsilon=EPSILON,
    )
    for index in range(LAYERS):
        hidden = layer(index, hidden, "hidden" if index == LAYERS - 1 else f"entry.{index + 1}")

    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "tokens", DIMENSION])
    graph = helper.make_graph(nodes, "all-MiniLM-L6-v2", inputs, [output], constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
