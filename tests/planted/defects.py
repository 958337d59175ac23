"""The list of planted defects, `defects.toml`, and how one is planted."""

import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

LIST: Final = Path(__file__).parent / "defects.toml"


@dataclass(frozen=True, slots=True)
class Defect:
    """One text of one file, and a wrong one for its place; `near` are the tests to try first."""

    name: str
    promise: str
    file: str
    old: str
    new: str
    near: list[str]

    @property
    def room(self) -> str:
        """The package of the file."""
        return ".".join(PurePosixPath(self.file).parent.parts)

    def planted(self, source: str) -> str:
        """The source with the defect. Raises ValueError unless the text to replace is there exactly once."""
        if (found := source.count(self.old)) != 1:
            raise ValueError(f"{self.name}: {self.file} has the text {found} times: {self.old}")
        return source.replace(self.old, self.new)


def defects() -> dict[str, Defect]:
    """All defects by name."""
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return {name: Defect(name, **fields) for name, fields in listed.items()}
