"""The version before this one, as a user has it: its wheel, which is kept in tests/data."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parents[1] / "data"
VERSION: Final = "0.1.0"
WHEEL: Final = DATA / f"rankstream-{VERSION}-py3-none-any.whl"
FORMATS: Final = DATA / f"formats-{VERSION}.json"
SCHEMAS: Final = DATA / f"schemas-{VERSION}"


def unpacked(directory: Path) -> Path:
    """The directory, with the wheel's content in it."""
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(directory)
    return directory


def environment(path: Path) -> Mapping[str, str]:
    """Variables by which a Python process takes rankstream from `path`, and not from where it was started."""
    return {"PYTHONPATH": str(path), "PYTHONSAFEPATH": "1"}
