"""Which directories are a cross-encoder, and what is said of those that aren't."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models

from bench import random_bert
from operators.clients.local import quantisation
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.quantisation import Wanted
from operators.clients.rerankers import RerankRequest
from schemas.errors import ConfigError

WORDS = random_bert.words(60)
MEMORY = Path("/proc/self/statm")
INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small model's directory."""
    random_bert.write(tmp_path, layers=1, positions=64)
    return tmp_path


def configure(directory: Path, name: str = "config.json", **changes: Any) -> None:
    """Change keys of a JSON file, which begins empty; None takes one away."""
    path = directory / name
    content = json.loads(path.read_text()) if path.exists() else {}
    content.update(changes)
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def graph(
    directory: Path,
    *nodes: Any,
    inputs: tuple[str, ...] = ("input_ids", "attention_mask"),
    outputs: tuple[str, ...] = ("logits",),
    given: int = INT64,
    shape: tuple[str | int, str | int] = ("batch", "tokens"),
    result: int = FLOAT,
) -> None:
    """Write a graph of a few nodes in place of the model; `floats` are the tokens' ids as float32."""
    floats = helper.make_node("Cast", [inputs[0]], ["floats"], to=FLOAT)
    built = helper.make_graph(
        [floats, *nodes],
        "odd",
        [helper.make_tensor_value_info(name, given, shape) for name in inputs],
        [helper.make_tensor_value_info(name, result, None) for name in outputs],
        [numpy_helper.from_array(np.array([1], np.int64), "one")],
    )
    opsets = [helper.make_opsetid("", 17)]
    (directory / "model.onnx").write_bytes(
        helper.make_model(built, opset_imports=opsets, ir_version=8).SerializeToString()
    )


def total(output: str = "logits", *, keep: int = 1) -> Any:
    """The node that sums a pair's token ids, whatever pads them."""
    return helper.make_node("ReduceSum", ["floats", "one"], [output], keepdims=keep)


def totals(directory: Path) -> list[float]:
    """The scores of the directory's model for two documents."""
    request = RerankRequest(WORDS[0], {"a": WORDS[1], "b": " ".join(WORDS[2:5])}, "docs", "space")
    (found,) = asyncio.run(CrossEncoder(directory).score([request], timeout=60))
    assert isinstance(found, dict)
    return [found["a"], found["b"]]


# Token ids: [CLS] 2, [SEP] 3, words from 4.
SUMS = [2 + 4 + 3 + 5 + 3, 2 + 4 + 3 + (6 + 7 + 8) + 3]


@pytest.mark.parametrize("keep", [0, 1], ids=["(n,)", "(n, 1)"])
@pytest.mark.parametrize("name", ["logits", "relevance"])
def test_logits_of_either_shape_are_scores(directory: Path, keep: int, name: str) -> None:
    """One number a pair, in a column or not, from `logits` or the only output: the raw logit is the score."""
    graph(directory, total(name, keep=keep), outputs=(name,))
    assert totals(directory) == SUMS


def test_half_precision_is_read(directory: Path) -> None:
    """A graph that gives float16 is a cross-encoder too."""
    halved = helper.make_node("Cast", ["sum"], ["logits"], to=TensorProto.FLOAT16)
    graph(directory, total("sum"), halved, result=TensorProto.FLOAT16)
    assert totals(directory) == SUMS


def test_logits_are_found_among_outputs(directory: Path) -> None:
    """Other outputs don't matter where one is named `logits`."""
    graph(directory, total(), helper.make_node("Neg", ["logits"], ["embeddings"]), outputs=("embeddings", "logits"))
    assert totals(directory) == SUMS


def test_padding_is_the_configured_token(directory: Path) -> None:
    """A graph that finds a pair's end by the padding token finds the one of config.json."""
    configure(directory, pad_token_id=100)
    graph(directory, total())
    exported = CrossEncoder(directory)._exported
    pairs = exported.encode([(WORDS[0], WORDS[1]), (WORDS[0], " ".join(WORDS[2:5]))])
    assert exported.forward(pairs) == [SUMS[0] + 2 * 100, SUMS[1]]
    # Where padding changes scores, no pair is padded.
    assert totals(directory) == SUMS


def test_the_graph_may_stand_in_a_folder_onnx(directory: Path) -> None:
    """`onnx/model.onnx` is found, beside the files of the model's repository."""
    (directory / "onnx").mkdir()
    shutil.move(directory / "model.onnx", directory / "onnx" / "model.onnx")
    CrossEncoder(directory)


@pytest.mark.parametrize("place", [".", "onnx"])
def test_a_named_file_is_the_graph(directory: Path, place: str) -> None:
    """`file` is found in the directory or its folder onnx, whatever else is there; one that is missing is named."""
    (directory / "onnx").mkdir()
    shutil.copy(directory / "model.onnx", directory / place / "model_O3.onnx")
    (directory / "model.onnx").write_bytes(b"no graph")
    CrossEncoder(directory, file="model_O3.onnx")
    with pytest.raises(ConfigError, match=r"onnx/model_O4\.onnx is there"):
        CrossEncoder(directory, file="model_O4.onnx")


@pytest.mark.parametrize(
    ("flags", "precision", "read"),
    [
        ("avx2 avx512_vnni", "auto", "model_qint8_avx512_vnni.onnx"),
        ("avx2 avx_vnni", "auto", "model_quint8_avx2.onnx"),
        ("asimddp", "auto", "model_quantized.onnx"),
        ("avx2", "auto", "model.onnx"),
        ("avx2", "int8", "model_quint8_avx2.onnx"),
        ("avx2 avx512_vnni", "float32", "model.onnx"),
    ],
)
def test_the_file_for_the_processor_is_found(
    directory: Path, monkeypatch: pytest.MonkeyPatch, flags: str, precision: Wanted, read: str
) -> None:
    """Of the files that a repository ships, the best that the processor has instructions for is read."""
    for name in ("model_qint8_avx512_vnni", "model_quint8_avx2", "model_quantized", "model"):
        (directory / f"{name}.onnx").write_bytes(b"no graph")
    monkeypatch.setattr(quantisation, "_flags", lambda _: set(flags.split()))
    with pytest.raises(ConfigError, match=f"{read} is no ONNX model"):
        CrossEncoder(directory, precision=precision)


def test_a_file_is_quantised_once(tmp_path: Path) -> None:
    """With `int8` and 32 bits alone at hand, scores are near those of 32 bits; a second start makes nothing."""
    directory, cache = tmp_path / "model", tmp_path / "cache"
    random_bert.write(directory, layers=2, hidden=64)
    request = RerankRequest(WORDS[0], {str(each): " ".join(WORDS[each:][:9]) for each in range(20)}, "docs", "space")

    def scores(**chosen: Any) -> list[float]:
        (found,) = asyncio.run(CrossEncoder(directory, cache=cache, **chosen).score([request], timeout=60))
        assert isinstance(found, dict)
        return list(found.values())

    quantised = scores(precision="int8")
    (made,) = cache.iterdir()
    operators = {node.op_type for node in onnx.load(made).graph.node}
    assert operators >= {"QAttention", "MatMulInteger", "LayerNormalization"}
    assert not operators & {"Attention", "SkipLayerNormalization"}
    before = made.stat().st_mtime_ns
    assert scores(precision="int8") == quantised
    assert [each.stat().st_mtime_ns for each in cache.iterdir()] == [before]
    floats = scores(precision="float32")
    assert floats != quantised
    assert np.corrcoef(floats, quantised)[0, 1] > 0.98


async def test_a_pair_of_8_bits_is_scored_as_it_is_alone(tmp_path: Path) -> None:
    """The other pairs of a call change no score of a quantised model, bit for bit."""
    random_bert.write(tmp_path / "model", layers=2, hidden=64)
    encoder = CrossEncoder(tmp_path / "model", precision="int8", cache=tmp_path / "cache")
    texts = {str(each): " ".join(WORDS[each:][: 1 + each]) for each in range(12)}
    (together,) = await encoder.score([RerankRequest(WORDS[0], texts, "docs", "space")], timeout=60)
    for id_, text in texts.items():
        assert isinstance(together, dict)
        alone = await encoder.score([RerankRequest(WORDS[0], {id_: text}, "docs", "space")], timeout=60)
        assert alone == [{id_: together[id_]}]


def test_what_cannot_be_quantised_is_named(directory: Path, tmp_path: Path) -> None:
    """A graph without products of 32 bits is a configuration error."""
    graph(directory, total())
    with pytest.raises(ConfigError, match=r"model\.onnx has no products of 32 bits"):
        CrossEncoder(directory, precision="int8", cache=tmp_path / "cache")


@pytest.mark.parametrize("long", ["word", "document", "spaces"])
def test_a_text_that_is_far_too_long_is_read_as_far_as_the_model_reads(directory: Path, long: str) -> None:
    """The end of a long text changes nothing, and one of few tokens in many characters is read whole."""
    texts = {
        "word": "x" * 5000 + f" {WORDS[3]}",
        "document": " ".join(WORDS * 100),
        "spaces": f"{WORDS[1]}{' ' * 5000}{WORDS[2]}",
    }
    exported = CrossEncoder(directory)._exported
    (pair,) = exported.encode([(WORDS[0], texts[long])])
    whole = Tokenizer.from_file(str(directory / "tokenizer.json"))
    whole.enable_truncation(64, strategy="longest_first")
    expected = whole.encode(WORDS[0], texts[long])
    assert (pair.ids, pair.type_ids) == (expected.ids, expected.type_ids)


@pytest.mark.parametrize(
    ("config", "limits", "read"),
    [
        ({"max_position_embeddings": 20}, None, 20),
        ({"max_position_embeddings": 20}, {"model_max_length": 10**30}, 20),
        ({"max_position_embeddings": 20}, {"model_max_length": 12}, 12),
        ({"max_position_embeddings": 20}, {"model_max_length": 512}, 20),
        ({"max_position_embeddings": 20}, {"do_lower_case": True}, 20),
        ({"max_position_embeddings": None}, {"model_max_length": 18}, 18),
        ({"max_position_embeddings": 20, "model_type": "xlm-roberta", "pad_token_id": 1}, None, 18),
        ({"max_position_embeddings": 8192}, None, 1024),
        ({"max_position_embeddings": 8194, "model_type": "xlm-roberta", "pad_token_id": 1}, None, 1024),
        ({"max_position_embeddings": None}, {"model_max_length": 32768}, 1024),
        ({"max_position_embeddings": 1024}, None, 1024),
    ],
    ids=[
        "positions",
        "no-limit",
        "limit-below",
        "limit-above",
        "no-key",
        "limit-alone",
        "roberta",
        "long",
        "long-roberta",
        "long-limit",
        "at-most",
    ],
)
async def test_the_tokens_that_the_model_reads(
    directory: Path, config: dict[str, Any], limits: dict[str, Any] | None, read: int
) -> None:
    """The least of what positions and tokenizer allow, at most 1,024; an architecture that counts from the padding has
    two fewer.
    """
    configure(directory, **config)
    if limits is not None:
        configure(directory, "tokenizer_config.json", **limits)
    mask = helper.make_node("Cast", ["attention_mask"], ["ones"], to=FLOAT)
    graph(directory, mask, helper.make_node("ReduceSum", ["ones", "one"], ["logits"]))
    request = RerankRequest(WORDS[0], {"long": " ".join(WORDS * 40)}, "docs", "space")
    assert await CrossEncoder(directory).score([request], timeout=60) == [{"long": read}]


@pytest.mark.skipif(not MEMORY.exists(), reason="the system doesn't tell how much memory a process has")
def test_a_long_pair_holds_no_memory_for_good(tmp_path: Path) -> None:
    """Its pass takes a hundred MB, which the process has given back when it ends."""

    def taken() -> int:
        return int(MEMORY.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20

    random_bert.write(tmp_path, layers=1, hidden=64, heads=16, positions=1024)
    exported = CrossEncoder(tmp_path)._exported
    (long,) = exported.encode([(WORDS[0], " ".join(WORDS * 40))])
    before = taken()
    exported.forward([long] * 4)
    assert taken() - before < 50


def spoiled(name: str, content: bytes | None) -> Callable[[Path], None]:
    """Replace a file's content; None deletes it."""

    def spoil(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        if content is not None:
            (directory / name).write_bytes(content)

    return spoil


def halved(directory: Path) -> None:
    """Lose the graph's second half."""
    path = directory / "model.onnx"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def unknown(directory: Path) -> None:
    """A tokenizer that fails on a word that it doesn't know."""
    Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="[UNK]")).save(str(directory / "tokenizer.json"))


def two_labels(directory: Path) -> None:
    """A classifier of two labels that config.json keeps quiet about."""
    configure(directory, id2label=None)
    graph(directory, total("sum"), helper.make_node("Concat", ["sum", "sum"], ["logits"], axis=1))


def tokens(directory: Path) -> None:
    """A number a token."""
    graph(directory, helper.make_node("Identity", ["floats"], ["logits"]))


def fixed(directory: Path) -> None:
    """A graph exported for one pair of eight tokens."""
    graph(directory, total(), shape=(1, 8))


def narrow(directory: Path) -> None:
    """A graph with fewer rows of words than the special tokens' ids."""
    model = onnx.load(directory / "model.onnx")
    (found,) = (each for each in model.graph.initializer if each.name == "embeddings.word_embeddings.weight")
    found.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(found)[:2], found.name))
    onnx.save(model, directory / "model.onnx")


NOT_DIRECTORIES: dict[str, tuple[Callable[[Path], None], str]] = {
    "no graph": (spoiled("model.onnx", None), r"neither .*/model\.onnx nor .*/onnx/model\.onnx is there"),
    "no tokenizer": (spoiled("tokenizer.json", None), r"/tokenizer\.json can't be read: No such file"),
    "no config": (spoiled("config.json", None), r"/config\.json can't be read: No such file"),
    "config: no JSON": (spoiled("config.json", b"{"), r"/config\.json is not JSON"),
    "config: no UTF-8": (spoiled("config.json", b"\xff\xfe"), r"/config\.json is not JSON"),
    "config: a list": (spoiled("config.json", b"[]"), r"/config\.json is no JSON object"),
    "config: deep": (spoiled("config.json", b"[" * 200_000), r"/config\.json is not JSON"),
    "labels": (lambda path: configure(path, id2label={"0": "no", "1": "yes"}), r"/config\.json tells of 2 labels"),
    "number": (lambda path: configure(path, id2label=None, num_labels=3), r"/config\.json tells of 3 labels"),
    "short": (
        lambda path: configure(path, max_position_embeddings=4),
        r"/config\.json leaves 4 tokens for a query and a doc",
    ),
    "no length": (
        lambda path: configure(path, max_position_embeddings=None),
        r"neither max_position_embeddings in .*/co",
    ),
    "limits": (spoiled("tokenizer_config.json", b"no"), r"/tokenizer_config\.json is not JSON"),
    "tokenizer: no JSON": (spoiled("tokenizer.json", b"no"), r"/tokenizer\.json is no tokenizer"),
    "tokenizer: no UTF-8": (spoiled("tokenizer.json", b"\xff"), r"/tokenizer\.json is no tokenizer"),
    "tokenizer: empty": (spoiled("tokenizer.json", b"{}"), r"/tokenizer\.json is no tokenizer"),
    "tokenizer: no unknown": (unknown, r"/tokenizer\.json can't tokenise a pair"),
    "graph: empty": (spoiled("model.onnx", b""), r"/model\.onnx is no ONNX model that can be run"),
    "graph: text": (spoiled("model.onnx", b"version https://"), r"/model\.onnx is no ONNX model that can be run"),
    "graph: half": (halved, r"/model\.onnx is no ONNX model that can be run"),
    "no mask": (lambda path: graph(path, total(), inputs=("input_ids",)), r"first forward pass: .*attention_mask"),
    "positions": (
        lambda path: graph(path, total(), inputs=("input_ids", "attention_mask", "position_ids")),
        r"first forward pass: .*position_ids",
    ),
    "int32": (
        lambda path: graph(path, total(), given=TensorProto.INT32),
        r"first forward pass: .*int32",
    ),
    "no logits": (
        lambda path: graph(path, total("start"), total("end"), outputs=("start", "end")),
        r"first forward pass: .*logits",
    ),
    "two labels": (two_labels, r"first forward pass: logits of shape \(2, 2\) for 2 pairs"),
    "tokens": (tokens, r"first forward pass: logits of shape \(2, 6\) for 2 pairs"),
    "one": (
        lambda path: graph(path, helper.make_node("ReduceSum", ["floats"], ["logits"], keepdims=0)),
        r"first forward pass: logits of shape \(\) for 2 pairs",
    ),
    "fixed": (fixed, r"first forward pass: .*[Ii]nvalid dimensions"),
    "narrow": (narrow, r"first forward pass: .*out of data bounds"),
}


@pytest.mark.parametrize(("spoil", "message"), NOT_DIRECTORIES.values(), ids=NOT_DIRECTORIES.keys())
def test_what_is_no_cross_encoder_is_a_configuration_error(
    directory: Path, spoil: Callable[[Path], None], message: str
) -> None:
    """The message names the directory's file and what is wrong with it, at the start and not at the first query."""
    CrossEncoder(directory)
    spoil(directory)
    with pytest.raises(ConfigError, match=rf"(?s)^reranker: .*{message}") as raised:
        CrossEncoder(directory)
    assert str(directory) in str(raised.value)


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Nothing is read from where nothing is."""
    with pytest.raises(ConfigError, match=f"reranker: {tmp_path}/missing is no directory"):
        CrossEncoder(tmp_path / "missing")
