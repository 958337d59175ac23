"""The graph's cache."""

import hashlib
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from operators.clients.local import minilm
from operators.clients.local.quantisation import Bits
from schemas.errors import ConfigError
from tests.tiers import sized

pytestmark = pytest.mark.weights


def _unwanted() -> Mapping[str, NDArray[np.float32]]:
    raise AssertionError("the weights were loaded again")


@pytest.mark.parametrize("bits", minilm.BUILT_SHA256)
def test_a_graph_that_is_there_is_used_without_the_weights(tmp_path: Path, bits: Bits) -> None:
    """The second start reads neither weights nor builds anything, for each number of bits."""
    built = minilm.ensure_graph(tmp_path, bits)
    assert hashlib.sha256(built.read_bytes()).hexdigest() == minilm.BUILT_SHA256[bits]
    assert minilm.ensure_graph(tmp_path, bits, _unwanted) == built


def _valid_onnx(_: bytes) -> bytes:
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, 1]) for name in ("input_ids", "x")]
    made = helper.make_graph([helper.make_node("Identity", ["input_ids"], ["hidden"])], "other", inputs, inputs[:1])
    content: bytes = helper.make_model(made).SerializeToString()
    return content


ALTERED: dict[str, Callable[[bytes], bytes]] = {
    "a bit": lambda built: built[:-9] + bytes([built[-9] ^ 1]) + built[-8:],
    "cut": lambda built: built[: len(built) // 2],
    "longer": lambda built: built + b"\0",
    "another graph": _valid_onnx,
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph, built once."""
    return minilm.ensure_graph(tmp_path_factory.mktemp("built"))


@pytest.mark.parametrize("kind", [*ALTERED][:: sized(2, nightly=1)])
def test_an_altered_graph_is_built_again(graph: Path, tmp_path: Path, kind: str) -> None:
    """A file that isn't the graph bit by bit is neither loaded nor kept."""
    built = graph.read_bytes()
    path = tmp_path / graph.name
    path.write_bytes(ALTERED[kind](built))
    assert minilm.ensure_graph(tmp_path) == path
    assert path.read_bytes() == built


def test_the_cache_is_its_owners_alone(tmp_path: Path) -> None:
    """A directory that is made is 0700; one that is there is left as it is, as in an image."""
    minilm.ensure_graph(tmp_path / "made")
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    (tmp_path / "there").mkdir(mode=0o755)
    minilm.ensure_graph(tmp_path / "there")
    assert (tmp_path / "there").stat().st_mode & 0o777 == 0o755


def test_processes_that_start_together_leave_one_whole_graph(tmp_path: Path) -> None:
    """Concurrent builders write the same bytes to one file and leave nothing else behind."""
    tensors = minilm.load_weights()
    builders = [
        threading.Thread(target=minilm.ensure_graph, args=(tmp_path / "new", 32, lambda: tensors)) for _ in range(3)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    (left,) = (tmp_path / "new").iterdir()
    assert left.read_bytes() == minilm.build_graph(tensors).SerializeToString()


def test_a_cache_that_cannot_be_written_is_a_configuration_error(tmp_path: Path) -> None:
    """The message names the directory."""
    occupied = tmp_path / "file"
    occupied.write_text("")
    with pytest.raises(ConfigError, match=f"{occupied} can't be written"):
        minilm.ensure_graph(occupied)
