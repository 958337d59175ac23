"""Cross-encoders with random weights: what an exported BERT's directory holds, for tests and benchmarks.

The graph is written fused where that makes it fast, as MiniLM's is; an optimiser finds nothing more in it.
"""

import json
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
SYLLABLES = tuple(map("".join, product("bdfgklmnprst", "aeiou")))
FUSED = "com.microsoft"
EPSILON = 1e-12

Tensors = dict[str, NDArray[np.float32]]


def words(count: int) -> list[str]:
    """The first words of the vocabulary, at most 216,000, each of which is one token."""
    return ["".join(word) for word in islice(product(SYLLABLES, repeat=3), count)]


def write(
    directory: Path,
    *,
    layers: int = 2,
    hidden: int = 32,
    heads: int = 2,
    intermediate: int | None = None,
    vocabulary: int = 1000,
    positions: int = 512,
    token_types: bool = True,
    seed: int = 0,
) -> Tensors:
    """Write `model.onnx`, `tokenizer.json` and `config.json` into `directory`; the weights, by BERT's names.

    The vocabulary has four special tokens and then `words`, `vocabulary` in all; `intermediate` is four times `hidden`
    by default. Without `token_types` the graph has no such input.
    """
    directory.mkdir(parents=True, exist_ok=True)
    types = 2 if token_types else 0
    tensors = _tensors(layers, hidden, intermediate or 4 * hidden, vocabulary, positions, types, seed)
    (directory / "model.onnx").write_bytes(_graph(tensors, layers, heads).SerializeToString())
    _tokenizer(vocabulary).save(str(directory / "tokenizer.json"))
    config = {
        "model_type": "bert",
        "max_position_embeddings": positions,
        "pad_token_id": 0,
        "id2label": {"0": "LABEL_0"},
    }
    (directory / "config.json").write_text(json.dumps(config))
    return tensors


def _tokenizer(vocabulary: int) -> Tokenizer:
    token_ids = [*SPECIAL, *words(vocabulary - len(SPECIAL))]
    tokenizer = Tokenizer(models.WordPiece({piece: index for index, piece in enumerate(token_ids)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(piece, SPECIAL.index(piece)) for piece in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _tensors(
    layers: int, hidden: int, intermediate: int, vocabulary: int, positions: int, types: int, seed: int
) -> Tensors:
    random = np.random.default_rng(seed)
    tensors: Tensors = {}

    def rows(name: str, count: int, width: int, scale: float) -> None:
        tensors[f"{name}.weight"] = random.standard_normal((count, width), np.float32) * np.float32(scale)

    def dense(name: str, inputs: int, outputs: int) -> None:
        # Sums of unit variance, so that no layer drowns in the residual beside it.
        rows(name, outputs, inputs, inputs**-0.5)
        tensors[f"{name}.bias"] = random.standard_normal(outputs, np.float32) * np.float32(0.1)

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = 1 + random.standard_normal(hidden, np.float32) * np.float32(0.1)
        tensors[f"{name}.bias"] = random.standard_normal(hidden, np.float32) * np.float32(0.1)

    rows("embeddings.word_embeddings", vocabulary, hidden, 1)
    rows("embeddings.position_embeddings", positions, hidden, 0.5)
    if types:
        rows("embeddings.token_type_embeddings", types, hidden, 0.5)
    norm("embeddings.LayerNorm")
    for index in range(layers):
        name = f"encoder.layer.{index}"
        for part in ("query", "key", "value"):
            dense(f"{name}.attention.self.{part}", hidden, hidden)
        dense(f"{name}.attention.output.dense", hidden, hidden)
        norm(f"{name}.attention.output.LayerNorm")
        dense(f"{name}.intermediate.dense", hidden, intermediate)
        dense(f"{name}.output.dense", intermediate, hidden)
        norm(f"{name}.output.LayerNorm")
    dense("pooler.dense", hidden, hidden)
    dense("classifier", hidden, 1)
    return tensors


def _graph(tensors: Tensors, layers: int, heads: int) -> Any:
    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, value: NDArray[Any]) -> str:
        constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def weight(name: str) -> str:
        return constant(name, tensors[name])

    def transposed(name: str) -> str:
        return constant(name, tensors[name].T)

    def node(kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def add_norm(product: str, residual: str, part: str, output: str) -> str:
        biased = node("Add", [product, weight(f"{part}.dense.bias")], f"{product}.biased")
        total = node("Add", [biased, residual], f"{product}.sum")
        norm = [weight(f"{part}.LayerNorm.weight"), weight(f"{part}.LayerNorm.bias")]
        return node("LayerNormalization", [total, *norm], output, epsilon=EPSILON)

    def layer(index: int, entry: str) -> str:
        name = f"encoder.layer.{index}"
        projections = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        qkv = [
            constant(f"{name}.qkv.weight", np.concatenate([tensors[f"{each}.weight"] for each in projections]).T),
            constant(f"{name}.qkv.bias", np.concatenate([tensors[f"{each}.bias"] for each in projections])),
        ]
        context = node("Attention", [entry, *qkv, "mask"], f"{name}.context", domain=FUSED, num_heads=heads)
        part = f"{name}.attention.output"
        attended = node("MatMul", [context, transposed(f"{part}.dense.weight")], f"{name}.attended")
        middle = add_norm(attended, entry, part, f"{name}.middle")
        wide = node("MatMul", [middle, transposed(f"{name}.intermediate.dense.weight")], f"{name}.wide")
        active = node("BiasGelu", [wide, weight(f"{name}.intermediate.dense.bias")], f"{name}.active", domain=FUSED)
        narrow = node("MatMul", [active, transposed(f"{name}.output.dense.weight")], f"{name}.narrow")
        return add_norm(narrow, middle, f"{name}.output", f"entry.{index + 1}")

    inputs = ["input_ids", "attention_mask"]
    node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
    words_ = node("Gather", [weight("embeddings.word_embeddings.weight"), "input_ids"], "words")
    start = constant("start", np.array([0], np.int64))
    node("Shape", ["input_ids"], "length", start=1, end=2)
    places = node("Slice", [weight("embeddings.position_embeddings.weight"), start, "length", start], "places")
    embedded = node("Add", [words_, places], "placed")
    if "embeddings.token_type_embeddings.weight" in tensors:
        inputs.append("token_type_ids")
        sides = node("Gather", [weight("embeddings.token_type_embeddings.weight"), "token_type_ids"], "sides")
        embedded = node("Add", [embedded, sides], "sided")
    norm = [weight("embeddings.LayerNorm.weight"), weight("embeddings.LayerNorm.bias")]
    entry = node("LayerNormalization", [embedded, *norm], "entry.0", epsilon=EPSILON)
    for index in range(layers):
        entry = layer(index, entry)
    first = node("Gather", [entry, constant("first", np.array(0, np.int64))], "first_token", axis=1)
    pooled = node("Gemm", [first, weight("pooler.dense.weight"), weight("pooler.dense.bias")], "pooled", transB=1)
    tanh = node("Tanh", [pooled], "tanh")
    node("Gemm", [tanh, weight("classifier.weight"), weight("classifier.bias")], "logits", transB=1)
    graph = helper.make_graph(
        nodes,
        "random-bert",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1])],
        constants,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)], ir_version=8
    )
