"""Formats that the version before wrote or will read: their bytes have not changed.

The values of `tests/data/formats-0.1.0.json` were printed by `tests/upgrade/formats.py` run with that version's wheel;
the first test does so again.
"""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from operators.caching.watermark_table import WatermarkTable
from operators.delivery.tracker import Commit, decode
from tests.upgrade import formats
from tests.upgrade.before import FORMATS, WHEEL, environment

WRITTEN: dict[str, Any] = json.loads(FORMATS.read_text(encoding="utf-8"))
"""By the version before."""


@pytest.mark.slow
def test_the_version_before_wrote_them() -> None:
    """The file holds what the wheel's own code prints, and nothing that this version computed."""
    done = subprocess.run(
        [sys.executable, formats.__file__],
        env={**os.environ, **environment(WHEEL), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == WRITTEN


@pytest.mark.parametrize("kind", ["cursors", "commits", "watermarks"])
def test_the_version_before_reads_what_this_one_writes(kind: str) -> None:
    """A downgrade loses no cursor, no answer beyond a commit, and no watermark: the bytes are its own."""
    assert formats.formats()[kind] == WRITTEN[kind]


def test_a_document_keeps_its_point() -> None:
    """An update or a deletion by one version reaches the point that another version wrote, and makes no second one."""
    assert formats.formats()["point_ids"] == WRITTEN["point_ids"]


def test_a_result_keeps_its_id() -> None:
    """A query that the version before has read, and this one answers, gets the result id that it would have had."""
    assert formats.formats()["result_ids"] == WRITTEN["result_ids"]


@pytest.mark.parametrize("name", sorted(formats.CURSORS))
@pytest.mark.parametrize("codec", sorted(formats.CODECS))
def test_a_cursor_outlives_an_upgrade(codec: str, name: str) -> None:
    """A cursor that a client got from the version before names the same place of the same query."""
    read = formats.CODECS[codec].read(WRITTEN["cursors"][codec][name])
    # repr tells 0 from 0.0, which are equal.
    assert repr(read) == repr(formats.CURSORS[name])


@pytest.mark.parametrize("name", sorted(formats.COMMITS))
def test_answers_beyond_a_commit_outlive_an_upgrade(name: str) -> None:
    """An answer of the version before beyond its committed offset is not given again."""
    position, done = formats.COMMITS[name]
    assert decode(Commit(position, WRITTEN["commits"][name])) == done


@pytest.mark.parametrize("name", sorted(formats.WATERMARKS))
def test_a_watermark_outlives_an_upgrade(name: str) -> None:
    """A search replica of this version follows indexing replicas of the version before."""
    collection, namespace, partition, offset = formats.WATERMARKS[name]
    key, value = WRITTEN["watermarks"][name]
    table = WatermarkTable()
    table.put(key.encode(), value.encode())
    assert table.of(collection, namespace) == (f"{partition}:{offset}",)
