"""Write the generated pages of the reference: `python -m docs.site`."""

from pathlib import Path
from typing import Final

from docs.site import command_line, configuration

REFERENCE: Final = Path(__file__).parents[1] / "reference"


def pages() -> dict[Path, str]:
    """The text of every generated page by its file."""
    return {REFERENCE / "configuration.md": configuration.page(), REFERENCE / "command-line.md": command_line.page()}


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
