"""The graph's cache."""

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from operators.clients.local.minilm import graph, weights
from schemas.errors import ConfigError

pytestmark = pytest.mark.weights


def _load() -> Mapping[str, NDArray[np.float32]]:
    return weights.load(weights.model_file("model.safetensors"))


def _unwanted() -> Mapping[str, NDArray[np.float32]]:
    raise AssertionError("the weights were loaded again")


def test_a_graph_that_is_there_is_used_without_the_weights(tmp_path: Path) -> None:
    """The second start reads neither weights nor builds anything."""
    built = graph.cached(tmp_path, _load)
    assert graph.cached(tmp_path, _unwanted) == built


def test_processes_that_start_together_leave_one_whole_graph(tmp_path: Path) -> None:
    """Concurrent builders write the same bytes to one file and leave nothing else behind."""
    tensors = _load()
    builders = [threading.Thread(target=graph.cached, args=(tmp_path / "new", lambda: tensors)) for _ in range(3)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    (left,) = (tmp_path / "new").iterdir()
    assert left.read_bytes() == graph.build(tensors).SerializeToString()


def test_a_cache_that_cannot_be_written_is_a_configuration_error(tmp_path: Path) -> None:
    """The message names the directory."""
    occupied = tmp_path / "file"
    occupied.write_text("")
    with pytest.raises(ConfigError, match=f"{occupied} can't be written"):
        graph.cached(occupied, _load)
