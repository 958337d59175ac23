"""Write the generated pages of the reference, and the schema of the chart's values: `python -m docs.site`."""

from pathlib import Path
from typing import Final

from docs.site import chart, command_line, configuration

REFERENCE: Final = Path(__file__).parents[1] / "reference"
VALUES: Final = Path(__file__).parents[2] / "deploy" / "helm" / "rankstream" / "values.schema.json"


def pages() -> dict[Path, str]:
    """The text of every generated page, and of the schema of the chart's values, by its file."""
    return {
        REFERENCE / "configuration.md": configuration.page(),
        REFERENCE / "command-line.md": command_line.page(),
        VALUES: chart.page(VALUES),
    }


if __name__ == "__main__":
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
