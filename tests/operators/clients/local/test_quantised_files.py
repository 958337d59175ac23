"""Files of quantised graphs: which graph is quantised, from which files, and what becomes of a damaged cache."""

import asyncio
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from bench import random_bert
from operators.clients.local.cross_encoder import CrossEncoder
from operators.clients.local.quantisation import FUSED, inspect_graph, write_whole
from operators.clients.rerankers import RerankRequest
from schemas.errors import CacheNotWritable, ConfigError

WORDS = random_bert.words(60)
REQUEST = RerankRequest(WORDS[0], {str(each): " ".join(WORDS[each:][:9]) for each in range(20)}, "docs", "space")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A model's directory."""
    random_bert.write(tmp_path / "model", hidden=64)
    return tmp_path / "model"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A directory that is not there yet."""
    return tmp_path / "cache"


def scores(directory: Path, cache: Path, **chosen: Any) -> list[float]:
    """The scores of the directory's model."""
    (found,) = asyncio.run(CrossEncoder(directory, cache=cache, **chosen).score([REQUEST], timeout=60))
    assert isinstance(found, dict)
    return list(found.values())


def assert_quantised(directory: Path, cache: Path, **chosen: Any) -> None:
    """With `int8` scores differ from those of 32 bits, and are near them."""
    quantised, floats = scores(directory, cache, precision="int8", **chosen), scores(directory, cache, **chosen)
    assert quantised != floats
    assert np.corrcoef(floats, quantised)[0, 1] > 0.98


@pytest.mark.parametrize("file", ["model_O3.onnx", "onnx/model_O3.onnx", "model[a].onnx", "onnx/[!x]*?.onnx"])
def test_a_named_file_of_32_bits_is_quantised(directory: Path, cache: Path, file: str) -> None:
    """Wherever it is and whatever its name; another graph under that name is quantised for itself."""
    (directory / "onnx").mkdir()
    (directory / "model.onnx").rename(directory / file)
    assert_quantised(directory, cache, file=file)
    random_bert.write(directory, hidden=64, seed=1)
    (directory / "model.onnx").replace(directory / file)
    assert_quantised(directory, cache, file=file)
    assert len([*cache.iterdir()]) == 2


def write_apart(directory: Path, place: str, seed: int) -> None:
    """Write the model with its weights in a file of their own."""
    random_bert.write(directory, hidden=64, seed=seed)
    model = onnx.load(directory / "model.onnx")
    (directory / "model.onnx").unlink()
    (directory / place).unlink(missing_ok=True)
    onnx.save(model, directory / "model.onnx", save_as_external_data=True, location=place, size_threshold=100)


def link(directory: Path) -> None:
    """Move all files into a store, and have links in their place."""
    store = directory.parent / "blobs"
    store.mkdir(exist_ok=True)
    for number, path in enumerate(sorted(directory.iterdir())):
        shutil.move(path, store / str(number))
        path.symlink_to(f"../blobs/{number}")


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("place", ["model.onnx_data", "weights.bin", "model.onnx.data"])
def test_a_graph_with_its_weights_apart_is_quantised(directory: Path, cache: Path, place: str, linked: bool) -> None:
    """Whatever the file of the weights is called, also where all files are links; other weights are quantised anew."""
    for seed in (0, 1):
        shutil.rmtree(directory)
        write_apart(directory, place, seed)
        if linked:
            link(directory)
        assert_quantised(directory, cache)
    assert len([*cache.iterdir()]) == 2


def remove(path: Path) -> None:
    """Lose the file."""
    path.unlink()


def replace_by_directory(path: Path) -> None:
    """Have a directory in the file's place."""
    path.unlink()
    path.mkdir()


def replace_by_pipe(path: Path) -> None:
    """Have a pipe in the file's place, which nobody writes."""
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [remove, replace_by_directory, replace_by_pipe])
def test_weights_that_cannot_be_read_are_named(directory: Path, cache: Path, spoil: Callable[[Path], None]) -> None:
    """The error is the configuration's, and names the file that the graph names."""
    write_apart(directory, "weights.bin", 0)
    spoil(directory / "weights.bin")
    with pytest.raises(ConfigError, match=r"^reranker: .*/model/weights\.bin "):
        CrossEncoder(directory, precision="int8", cache=cache)


@pytest.mark.parametrize(("named", "file"), [("model.onnx", None), ("model_quantized.onnx", "model_quantized.onnx")])
def test_a_graph_of_integers_is_used_as_it_is(directory: Path, cache: Path, named: str, file: str | None) -> None:
    """Whatever its name, and whatever precision is wanted."""
    expected = scores(directory, cache, precision="int8")
    (made,) = cache.iterdir()
    made.rename(directory / named)
    assert scores(directory, cache, precision="int8", file=file) == expected
    assert not [*cache.iterdir()]
    assert CrossEncoder(directory, precision="int8", file=file, cache=cache).model == "model:int8"


OPERATORS = {
    "MatMulInteger": "",
    "QLinearMatMul": "",
    "DequantizeLinear": "",
    "DynamicQuantizeMatMul": FUSED,
    "MatMulIntegerToFloat": FUSED,
    "MatMulNBits": FUSED,
    "QAttention": FUSED,
    "QGemm": FUSED,
    "QLinearAdd": FUSED,
}


@pytest.mark.parametrize("place", ["graph", "branch", "function"])
@pytest.mark.parametrize("operator", [*OPERATORS, "MatMul", "Attention", "Gather"])
def test_products_of_integers_are_found(tmp_path: Path, operator: str, place: str) -> None:
    """By their operators, in a graph, its branches and its functions."""
    nodes = [helper.make_node(operator, ["entry"], ["output"], domain=OPERATORS.get(operator, ""))]
    value = helper.make_tensor_value_info("entry", TensorProto.FLOAT, [1])
    functions = []
    if place == "branch":
        inner = helper.make_graph(nodes, "inner", [], [])
        nodes = [helper.make_node("If", ["yes"], ["output"], then_branch=inner, else_branch=inner)]
    elif place == "function":
        opsets = [helper.make_opsetid("", 17)]
        functions = [helper.make_function("own", "Layer", ["entry"], ["output"], nodes, opsets)]
        nodes = [helper.make_node("Layer", ["entry"], ["output"], domain="own")]
    graph = helper.make_graph(nodes, "outer", [value], [value])
    onnx.save(helper.make_model(graph, functions=functions), tmp_path / "model.onnx")
    _, integers = inspect_graph(tmp_path / "model.onnx")
    assert integers == (operator in OPERATORS)


@pytest.mark.parametrize("precision", ["int8", "float32"])
def test_a_model_says_its_bits(directory: Path, cache: Path, precision: Any) -> None:
    """As the embedder does: a result tells by which products it was ranked."""
    model = CrossEncoder(directory, precision=precision, cache=cache).model
    assert model == ("model:int8" if precision == "int8" else "model")


@pytest.mark.parametrize("damage", [lambda _: b"", lambda made: made[:1000], lambda made: made[:-1000], lambda _: b"x"])
def test_a_damaged_file_is_made_again(directory: Path, cache: Path, damage: Callable[[bytes], bytes]) -> None:
    """A file that was cut costs one start some time, and no more."""
    expected = scores(directory, cache, precision="int8")
    (made,) = cache.iterdir()
    content = made.read_bytes()
    made.write_bytes(damage(content))
    assert scores(directory, cache, precision="int8") == expected
    assert [each.read_bytes() for each in cache.iterdir()] == [content]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    """An hour later; what another process may be writing stays, and so does all else."""
    seen: list[str] = []

    def note(scratch: Path) -> bytes:
        seen.append(scratch.name)
        return b"content"

    write_whole(tmp_path / "first", note)
    old, young, other = (tmp_path / name for name in (seen[0], f"{seen[0]}x", "index"))
    for each, age in ((old, 4000), (young, 3000), (other, 4000)):
        each.mkdir()
        (each / "optimised.onnx").write_bytes(b"")
        written = each.stat().st_mtime - age
        os.utime(each, (written, written))
    write_whole(tmp_path / "second", note)
    assert {each.name for each in tmp_path.iterdir()} == {"first", "second", young.name, other.name}


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """A function that bounds the size of files that this process writes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("most", [0, 1_000, 100_000])
def test_a_full_disk_is_the_caches_fault(
    directory: Path, cache: Path, limit_files: Callable[[int], None], most: int
) -> None:
    """Whichever file has no room: the message names the setting and the directory, not the model, and nothing stays."""
    limit_files(most)
    with pytest.raises(CacheNotWritable, match=f"^cache_dir: {cache} can't be written: "):
        CrossEncoder(directory, precision="int8", cache=cache)
    assert not [*cache.iterdir()]
