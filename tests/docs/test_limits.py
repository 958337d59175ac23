"""The page about limits: each number of its table is that of the code."""

import re
from typing import Final

import pytest

from operators.collections.requirements import MINIMUM
from schemas.fields import MAX_METADATA_BYTES
from schemas.filters import MAX_FILTERS, MAX_VALUES
from schemas.query import MAX_LIMIT
from schemas.settings import Settings, load
from schemas.settings.qdrant import MOST_FIELDS
from schemas.settings.ranking import BALANCED
from tests.docs.pages import DOCS

TEXT: Final = (DOCS / "why" / "limits.md").read_text(encoding="utf-8")

ROWS: Final = re.findall(r"(?m)^\| ([a-z][^|]*?) \| ([\d,]+)(?: \w+)? \| (?:`([\w.]+)`|fixed).*\|$", TEXT)
"""What, how much, and the key that sets it, if one does."""

FIXED: Final = {
    "results on a page": MAX_LIMIT,
    "filters of a query": MAX_FILTERS,
    "values of a filter": MAX_VALUES,
    "metadata of a query, which the result repeats": MAX_METADATA_BYTES,
    "searched fields": MOST_FIELDS,
}


@pytest.fixture(scope="module")
def settings() -> Settings:
    """The configuration by default."""
    return load(None, {"qdrant": {"url": "http://q"}})


def test_the_limits_are_those_of_the_code(settings: Settings) -> None:
    """Those that a key sets are its default, the others the code's own; the table has all rows, and no other."""
    written = {what: int(number.replace(",", "")) for what, number, _ in ROWS}
    sizes = TEXT[TEXT.index("## Sizes") :]
    assert len(written) == len(re.findall(r"(?m)^\| ", sizes)) - 1
    profile = settings.profiles[BALANCED]
    bounds = type(profile).model_fields["over_sample"].metadata
    [most] = [bound.le for bound in bounds if hasattr(bound, "le")]
    expected = {"candidates of a leg, by default": profile.over_sample, "candidates of a leg": most, **FIXED}
    for what, _, key in ROWS:
        section, _, name = key.partition(".")
        if section == "limits":
            expected[what] = getattr(settings.limits, name)
    assert written == expected


def test_the_page_names_the_oldest_qdrant() -> None:
    """It is the one that `check` asks for."""
    assert f"| Qdrant | {'.'.join(map(str, MINIMUM))} or newer" in TEXT
