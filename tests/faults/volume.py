"""A small file system of its own, which can be filled: a broker's logs are put there."""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import Final, Self

SIZE_MB: Final = 128

_CHUNK: Final = bytes(1 << 20)


class CannotMount(Exception):
    """The machine doesn't let this process mount a file system."""


class Volume:
    """A tmpfs of SIZE_MB. Entering it raises CannotMount."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rankstream-volume-"))
        self._ballast = self.path / "ballast"

    def fill(self) -> None:
        """Leave no byte free."""
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as ballast:
            while True:
                ballast.write(_CHUNK)

    def free(self) -> None:
        """Take away what `fill` put there."""
        self._ballast.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(self.path)]
        try:
            mounted = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError as error:
            self.path.rmdir()
            raise CannotMount("there is no command mount") from error
        if mounted.returncode:
            self.path.rmdir()
            raise CannotMount(mounted.stderr.strip())
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.path)], check=True)
        self.path.rmdir()
