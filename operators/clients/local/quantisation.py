"""Models of 8 bits: the weights of a graph's products become integers, and its activations at each pass.

onnxruntime's quantiser writes them, bit for bit the same with its versions 1.20 to 1.31. Before it, changes that its
optimisers don't know make a graph quicker, or more exact with 8 bits, and leave its results as they are.

A weight has a scale a column, and 8 bits; 7 for a processor without instructions for sums of 8-bit products. Such a
processor adds two products in 16 bits, which 8 bits of both would overflow. The scales of activations are those of a
pass, so a text's vector depends on what shares its pass: texts that go alone have the same vector always.
"""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from operators.clients.local import inference
from schemas.errors import CacheNotWritable, ConfigError

if TYPE_CHECKING:
    import onnx
    import onnxruntime

Precision = Literal["int8", "float32"]
Wanted = Literal["auto", "int8", "float32"]
Bits = Literal[32, 8, 7]
"""Of a weight: 32 are not quantised."""

FUSED: Final = "com.microsoft"

VERSION: Final = 4
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
_PRODUCTS: Final = frozenset({"MatMul", "Attention"})
_INTEGER_PRODUCTS: Final = {
    *("DequantizeLinear", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat"),
    *("MatMulNBits", "QAttention", "QGemm"),
}
_SCRATCH: Final = "writing-"
_LEFT_BEHIND: Final = 3600.0
"""Seconds after which nobody writes into a scratch directory any more."""

_TEMPORARY: Final = threading.Lock()

_LEAST_COLUMNS: Final = 32
"""Fewer columns, such as those of a classifier, take no time and stay as they are."""

_BY_TOKEN: Final = frozenset({"Add", "BiasGelu", "LayerNormalization", "MatMul"})
"""Operators whose result for a token follows from that token alone, if what else they take is constant."""

_OF_TOKENS: Final = frozenset({"Attention", "LayerNormalization"})
"""Operators that give a vector for each token."""


def chosen(wanted: Wanted) -> Precision:
    """The precision that is wanted; `auto` is int8 where the processor is quicker with it."""
    if wanted == "auto":
        return "int8" if has_dot_products() else "float32"
    return wanted


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


def inspect_graph(path: Path) -> tuple[Sequence[Path], bool]:
    """The files of the graph `path`, and true if its products are of integers. Raises ConfigError."""
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
    integers = any(each.op_type in _INTEGER_PRODUCTS or each.op_type.startswith("QLinear") for each in nodes)
    return [path, *(path.parent / name for name in sorted(others))], integers


def open_graph(path: Path) -> "onnxruntime.InferenceSession":
    """Load the graph `path` as it is. Raises ConfigError."""
    try:
        return inference.session(path, optimise=True)
    except Exception as error:
        raise ConfigError(f"reranker: {path} is no ONNX model that can be run: {error}") from error


def open_quantised(files: Sequence[Path], cache: Path, name: str) -> "onnxruntime.InferenceSession":
    """Load a model's graph with 8 bits, made unless a file in `cache` has it and can be run. Raises ConfigError."""
    bits = bits_of("int8")
    path, made = files[0], cache / f"{name}-{_hash_files(files)[:16]}-{VERSION}-{bits}.onnx"
    # A file that was cut is made again.
    with suppress(Exception):
        return inference.session(made, optimise=True)
    write_whole(made, lambda scratch: _convert(path, scratch, bits))
    try:
        return inference.session(made, optimise=True)
    except Exception as error:
        raise ConfigError(f"reranker: {path} can't be run with 8 bits: {error}") from error


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
        made = quantise(model, bits, scratch)
    except OSError:
        raise
    except Exception as error:
        raise ConfigError(f"reranker: {path} can't be quantised: {error}") from error
    _, integers = inspect_graph(made)
    if not integers:
        raise ConfigError(f"reranker: {path} has no products of 32 bits to quantise")
    return made.read_bytes()


def write_whole(path: Path, content: Callable[[Path], bytes]) -> None:
    """Write what `content` returns, which has a scratch directory: the file appears whole or not at all.

    Raises CacheNotWritable if the directory can't be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left_behind in path.parent.glob(f"{_SCRATCH}*"):
            # By a process that was killed while it wrote, unless one writes there now.
            with suppress(OSError):
                if time.time() - left_behind.stat().st_mtime > _LEFT_BEHIND:
                    shutil.rmtree(left_behind)
        with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=path.parent) as scratch:
            written = Path(scratch, path.name)
            written.write_bytes(content(Path(scratch)))
            os.replace(written, path)
    except OSError as error:
        raise CacheNotWritable(f"cache_dir: {path.parent} can't be written: {error.strerror}") from error


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


def quantise(model: "onnx.ModelProto", bits: Bits, scratch: Path) -> Path:
    """Write `model` with weights of 8 or 7 `bits` in its products into a file in `scratch`; its nodes get other names.

    Raises OSError if the directory can't be written.
    """
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = model.graph
    weights = {each.name: each for each in graph.initializer}
    reads = count_reads(graph)
    left: list[str] = []
    for number, node in enumerate(walk_nodes(graph)):
        node.name = str(number)
        if node.op_type not in (*_PRODUCTS, "Gemm"):
            continue
        weight = weights.get(node.input[1])
        transposed = any(each.name == "transB" and each.i for each in node.attribute)
        if node.input[0] in weights or not _is_quantisable(node, weight, 0 if transposed else 1):
            left += [node.name, f"{node.name}_MatMul"]
        if weight is not None and transposed and reads[weight.name] > 1:
            # The quantiser transposes a weight for all that read it.
            node.input[1] = f"{weight.name}.{node.name}"
            graph.initializer.add().CopyFrom(weight)
            graph.initializer[-1].name = node.input[1]
    # Without it, the quantiser logs advice.
    model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
    written = scratch / "quantised.onnx"
    with _TEMPORARY:
        # In a container, the quantiser's temporary files may find no other directory that can be written.
        usual, tempfile.tempdir = tempfile.tempdir, str(scratch)
        try:
            quantize_dynamic(
                model,
                written,
                op_types_to_quantize=sorted(_PRODUCTS),
                per_channel=True,
                reduce_range=bits == 7,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=left,
                # It knows no result of operators such as attention.
                extra_options={"DefaultTensorType": TensorProto.FLOAT},
            )
        finally:
            tempfile.tempdir = usual
    return written


def _is_quantisable(node: "onnx.NodeProto", weight: "onnx.TensorProto | None", columns: int) -> bool:
    """True for a constant weight, and attention with nothing but a mask and its weights, as an encoder's has."""
    from onnx import helper

    if weight is None or weight.data_type != weight.FLOAT or len(weight.dims) != 2:
        return False
    if node.op_type == "Attention":
        options = any(helper.get_attribute_value(each) for each in node.attribute if each.name != "num_heads")
        if node.domain != FUSED or options or not all(node.input[:4]) or any(node.input[4:]):
            return False
    return bool(weight.dims[columns] >= _LEAST_COLUMNS)


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
            epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), 1e-12)
            inputs = [entry, *norm]
            node = helper.make_node("LayerNormalization", inputs, node.output[:1], axis=-1, epsilon=epsilon)
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
    readers: dict[str, list[str]] = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            readers[name].append(node.output[0])
    for name, count in count_reads(graph).items():
        if count > len(readers[name]):
            # By an output, or in the graph of a branch or a loop.
            readers[name].append("")
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
        index = chosen.input[1]
        gathers = (helper.make_node("Gather", [name, index], [rows[name]], axis=1) for name in sorted(entries))
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


def walk_nodes(graph: "onnx.GraphProto | onnx.FunctionProto") -> Iterator["onnx.NodeProto"]:
    """The graph's nodes, each before those of the graphs within it, such as the branches of an If."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from walk_nodes(inner)


def _chooses_token(node: "onnx.NodeProto", constants: Mapping[str, int]) -> bool:
    axes = [each.i for each in node.attribute if each.name == "axis"]
    return node.op_type == "Gather" and axes == [1] and node.input[1] in constants


def _is_by_token(node: "onnx.NodeProto", constants: Mapping[str, int]) -> bool:
    if node.op_type not in _BY_TOKEN or len(node.output) > 1:
        return False
    if any(each.name == "axis" and each.i != -1 for each in node.attribute):
        return False
    ranks = [constants.get(name) for name in node.input]
    if node.op_type == "Add":
        # The values of two layers, or a vector.
        return set(ranks) <= {None, 1}
    return ranks[0] is None and set(ranks[1:]) == {2 if node.op_type == "MatMul" else 1}
