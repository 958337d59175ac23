"""Files of documents, one JSON object a line, as `rankstream index --from` and `demo` read them."""

from pathlib import Path

import pytest

from flows.cli.ingestion import read_jsonl
from schemas.errors import InputError


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id": "b", "text": "x", "id": "c"}', "a key is repeated"),
        (b'{"id": "b", "metadata": {"a": 1, "a": 2}}', "a key is repeated"),
        (b'{"id": NaN}', "not JSON"),
        (b'["b"]', "a JSON object is expected, not list"),
        (b'{"id": ' + b"[" * 2000 + b"]" * 2000 + b"}", "not JSON"),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: bytes, said: str) -> None:
    """The flow would refuse the same as a message; here its line is named before anything is sent for it."""
    path = tmp_path / "documents.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "text": "x"}\r\n\n' + line + b"\n")
    documents = read_jsonl(path)
    assert next(documents) == {"id": "a", "text": "x"}
    with pytest.raises(InputError) as caught:
        next(documents)
    assert str(caught.value).startswith(f"{path}:3: ")
    assert said in str(caught.value)
