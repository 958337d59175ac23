"""Models of 8 bits: the weights of a graph's products become integers, and its activations at each pass.

A weight has a scale a column, and 8 bits; 7 for a processor without instructions for sums of 8-bit products. Such a
processor adds two products in 16 bits, which 8 bits of both would overflow. The scales of activations are those of a
pass, so a text's vector depends on what shares its pass: texts that go alone have the same vector always.
"""

import errno
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np

from operators.clients.local import inference
from operators.clients.local.graph_optimisation import (
    compute_one_token,
    count_reads,
    divide_norms,
    vectors_added,
    walk_nodes,
)
from schemas.errors import CacheNotWritable, ConfigError

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Precision = Literal["int8", "float32"]
Wanted = Literal["auto", "int8", "float32"]
Bits = Literal[32, 8, 7]
"""Of a weight: 32 are not quantised."""

FUSED: Final = "com.microsoft"

VERSION: Final = 3
"""Part of a quantised file's name: raise it with every change to what is made."""

_DOT_PRODUCTS: Final = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "asimddp"})
_NAMES: Final = {
    "avx512_vnni": ("model_qint8_avx512_vnni.onnx", "model_qint8_avx512.onnx"),
    "avx2": ("model_quint8_avx2.onnx",),
    "asimddp": ("model_qint8_arm64.onnx",),
}
"""Files that repositories of models ship, by the processor's instructions that they need, the best first."""

_ANY: Final = ("model_quantized.onnx", "model_int8.onnx")

_CPUINFO: Final = Path("/proc/cpuinfo")
_PEAKS: Final = {8: 127, 7: 64}
"""The largest integer of a weight by its bits."""

_PRODUCTS: Final = frozenset({"MatMul", "Attention"})
_INTEGER_PRODUCTS: Final = frozenset(
    {
        "DequantizeLinear",
        "DynamicQuantizeMatMul",
        "MatMulInteger",
        "MatMulIntegerToFloat",
        "MatMulNBits",
        "QAttention",
        "QGemm",
    }
)
_QUANTISED_PREFIX: Final = "QLinear"
"""Of operators whose inputs and output are integers."""

_SCRATCH: Final = "writing-"
_LEFT_BEHIND: Final = 3600.0
"""Seconds after which nobody writes into a scratch directory any more."""

_LEAST_COLUMNS: Final = 32
"""Fewer columns, such as those of a classifier, take no time and stay as they are."""


def chosen(wanted: Wanted) -> Precision:
    """The precision that is wanted; `auto` is int8 where the processor is quicker with it."""
    if wanted != "auto":
        return wanted
    return "int8" if has_dot_products() else "float32"


def bits_of(precision: Precision, cpuinfo: Path = _CPUINFO) -> Bits:
    """The bits of a weight that this processor multiplies without an overflow."""
    if precision == "float32":
        return 32
    return 8 if has_dot_products(cpuinfo) else 7


def has_dot_products(cpuinfo: Path = _CPUINFO) -> bool:
    """True if the processor has instructions for sums of 8-bit products: VNNI, AMX, or the dot products of Arm.

    False where the system doesn't tell.
    """
    return not _DOT_PRODUCTS.isdisjoint(_flags(cpuinfo))


def quantised_names(cpuinfo: Path = _CPUINFO) -> list[str]:
    """The names that graphs of 8 bits for this processor have, the best first."""
    flags = _flags(cpuinfo)
    return [name for needed, names in _NAMES.items() if needed in flags for name in names] + list(_ANY)


def _flags(cpuinfo: Path) -> set[str]:
    try:
        return set(cpuinfo.read_text().split())
    except OSError:
        return set()


class Source(NamedTuple):
    """A graph as its maker wrote it; `files` hold it and its weights, `integers`: its products are of integers."""

    path: Path
    files: Sequence[Path]
    integers: bool


def inspect_graph(path: Path) -> Source:
    """Look at the graph in the file `path`. Raises ConfigError if it can't be read, or is none."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ConfigError(f"reranker: {path} can't be read: {error.strerror}") from error
    except DecodeError as error:
        raise ConfigError(f"reranker: {path} is no ONNX model that can be run: {error}") from error
    nodes = [node for graph in (model.graph, *model.functions) for node in walk_nodes(graph)]
    attributes = [attribute for node in nodes for attribute in node.attribute]
    tensors = [*model.graph.initializer, *(tensor for each in attributes for tensor in (each.t, *each.g.initializer))]
    # Large models have their weights in files of their own next to the graph.
    others = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    return Source(
        path,
        [path, *(path.parent / name for name in sorted(others))],
        any(node.op_type in _INTEGER_PRODUCTS or node.op_type.startswith(_QUANTISED_PREFIX) for node in nodes),
    )


def open_graph(path: Path) -> "onnxruntime.InferenceSession":
    """Load the graph `path` as it is. Raises ConfigError."""
    try:
        return inference.session(path, optimise=True)
    except Exception as error:
        raise ConfigError(f"reranker: {path} is no ONNX model that can be run: {error}") from error


def open_quantised(source: Source, cache: Path, name: str) -> "onnxruntime.InferenceSession":
    """Load the graph of the model `name` with 8 bits, which is made unless a file in `cache` has it and can be run.

    Raises ConfigError.
    """
    bits = bits_of("int8")
    made = cache / f"{name}-{_hash_files(source.files)[:16]}-{VERSION}-{bits}.onnx"
    # A file that was cut is made again.
    with suppress(Exception):
        return inference.session(made, optimise=True)
    write_whole(made, lambda scratch: _convert(source.path, scratch, bits))
    try:
        return inference.session(made, optimise=True)
    except Exception as error:
        raise ConfigError(f"reranker: {source.path} can't be run with 8 bits: {error}") from error


def _hash_files(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise ConfigError(f"reranker: {path} is no regular file")
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise ConfigError(f"reranker: {path} can't be read: {error.strerror}") from error
    return digest.hexdigest()


def _convert(path: Path, scratch: Path, bits: Bits) -> bytes:
    """The bytes of the graph `path` with weights of 8 or 7 `bits`. Raises ConfigError, or OSError for `scratch`."""
    import onnx

    optimised = scratch / "optimised.onnx"
    try:
        inference.session(path, optimise=True, written=optimised)
        model = onnx.load(optimised)
    except Exception as error:
        # onnxruntime raises the same for a graph that it can't run as for a file that it can't write.
        open_graph(path)
        raise OSError(errno.EIO, str(error)) from error
    try:
        divide_norms(model)
        compute_one_token(model)
        weights = quantise(model, bits)
        content: bytes = model.SerializeToString()
    except Exception as error:
        raise ConfigError(f"reranker: {path} can't be quantised: {error}") from error
    if not weights:
        raise ConfigError(f"reranker: {path} has no products of 32 bits to quantise")
    return content


def write_whole(path: Path, content: Callable[[Path], bytes]) -> None:
    """Write what `content` returns, which has a scratch directory: the file appears whole or not at all.

    Raises CacheNotWritable if the directory can't be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_left_behind(path.parent)
        with TemporaryDirectory(prefix=_SCRATCH, dir=path.parent) as scratch:
            written = Path(scratch, path.name)
            written.write_bytes(content(Path(scratch)))
            os.replace(written, path)
    except OSError as error:
        raise CacheNotWritable(f"cache_dir: {path.parent} can't be written: {error.strerror}") from error


def _remove_left_behind(directory: Path) -> None:
    """Remove the scratch directories of processes that were killed while they wrote."""
    for scratch in directory.glob(f"{_SCRATCH}*"):
        with suppress(OSError):
            if time.time() - scratch.stat().st_mtime > _LEFT_BEHIND:
                shutil.rmtree(scratch)


def balance(model: "onnx.ModelProto", outliers: Mapping[str, Mapping[int, float]]) -> None:
    """Divide channels of activations by a factor, and multiply the rows of the weights that they meet by it.

    `outliers` has the factor of each channel by the activation's name. The products are the same. But a pass has one
    scale for an activation, so a channel far larger than the others takes their bits.
    Source: SmoothQuant (Xiao et al., 2023), for the outliers alone.
    """
    from onnx import helper, numpy_helper

    graph = model.graph
    weights = {each.name: each for each in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type in _PRODUCTS and node.input[0] in outliers:
            entry, name = node.input[:2]
            weight = numpy_helper.to_array(weights[name]).copy()
            shares = np.ones(len(weight), np.float32)
            for channel, factor in outliers[entry].items():
                shares[channel] /= factor
                weight[channel] *= factor
            weights[name].CopyFrom(numpy_helper.from_array(weight, name))
            graph.initializer.append(numpy_helper.from_array(shares, f"{entry}.shares"))
            node.input[0] = f"{entry}.balanced"
            nodes.append(helper.make_node("Mul", [entry, f"{entry}.shares"], [node.input[0]]))
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def quantise(model: "onnx.ModelProto", bits: Bits) -> int:
    """Replace the products of `model` with constant weights, attention's included, by those of integers.

    A weight gets 8 or 7 `bits`. Returns the number of weights that became integers.
    """
    from onnx import TensorProto, helper, numpy_helper

    graph = model.graph
    weights = {each.name: each for each in graph.initializer}
    quantised: set[tuple[str, bool]] = set()

    def constants(name: str, transposed: bool = False) -> list[str]:
        made = f"{name}.transposed" if transposed else name
        names = [f"{made}.{part}" for part in ("integers", "scale", "zero")]
        if (name, transposed) not in quantised:
            quantised.add((name, transposed))
            weight = numpy_helper.to_array(weights[name])
            weight = weight.T if transposed else weight
            peaks = np.abs(weight).max(axis=0)
            scale = np.where(peaks > 0, peaks / np.float32(_PEAKS[bits]), np.float32(1)).astype(np.float32)
            integers = np.rint(weight / scale).astype(np.int8)
            values = (integers, scale, np.zeros(len(scale), np.int8))
            for each, value in zip(names, values, strict=True):
                graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), each))
        return names

    def is_weight(name: str, columns: int) -> bool:
        found = weights.get(name)
        return (
            found is not None
            and found.data_type == TensorProto.FLOAT
            and len(found.dims) == 2
            and found.dims[columns] >= _LEAST_COLUMNS
        )

    def are_vectors(names: Iterable[str], columns: int) -> bool:
        return all(name in weights and list(weights[name].dims) in ([columns], [1, columns]) for name in names)

    biases = vectors_added(graph)
    done: set[str] = set()
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.output[0] in done:
            continue
        has = {each.name: helper.get_attribute_value(each) for each in node.attribute}
        match node.op_type:
            case "MatMul" if is_weight(node.input[1], 1):
                inputs, output, then = [node.input[0], *constants(node.input[1])], node.output, []
                adds, bias = biases.get(output[0], (None, ""))
                if adds is not None and weights[bias].dims == weights[node.input[1]].dims[1:]:
                    inputs.append(bias)
                    done.add(adds.output[0])
                    if adds.op_type == "BiasGelu":
                        then = [helper.make_node("Gelu", output, adds.output, domain=FUSED)]
                    else:
                        output = adds.output
                nodes += [helper.make_node("DynamicQuantizeMatMul", inputs, output, domain=FUSED), *then]
            case "Gemm" if (
                _is_plain(has)
                and is_weight(node.input[1], columns := 0 if has.get("transB") else 1)
                and are_vectors(filter(None, node.input[2:]), weights[node.input[1]].dims[columns])
            ):
                inputs = [node.input[0], *constants(node.input[1], columns == 0), *node.input[2:]]
                nodes.append(helper.make_node("DynamicQuantizeMatMul", inputs, node.output, domain=FUSED))
            case "Attention" if node.domain == FUSED and is_weight(node.input[1], 1) and _is_encoder(node, has):
                entry, integers = node.input[0], [f"{node.output[0]}.{part}" for part in ("integers", "scale", "zero")]
                nodes.append(helper.make_node("DynamicQuantizeLinear", [entry], integers))
                weight, scale, zero = constants(node.input[1])
                inputs = [integers[0], weight, node.input[2], integers[1], scale, node.input[3], integers[2], zero]
                nodes.append(
                    helper.make_node("QAttention", inputs, node.output, domain=FUSED, num_heads=has["num_heads"])
                )
            case _:
                nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)
    reads = count_reads(graph)
    unread = {name for name, _ in quantised if not reads[name]}
    for each in (graph.initializer, graph.input):
        # Older exports list their weights as inputs, too.
        kept = [value for value in each if value.name not in unread]
        del each[:]
        each.extend(kept)
    return len({name for name, _ in quantised})


def _is_plain(gemm: dict[str, object]) -> bool:
    return gemm.get("alpha", 1) == gemm.get("beta", 1) == 1 and not gemm.get("transA")


def _is_encoder(node: "onnx.NodeProto", has: dict[str, object]) -> bool:
    """True if attention has nothing but a mask and its weights, as an encoder's has, and no option of its own."""
    options = {name for name, value in has.items() if value and name != "num_heads"}
    return not options and all(node.input[:4]) and not any(node.input[4:])
