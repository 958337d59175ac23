"""Messages that can't become queries, and the class of the dead letter that each must become."""

from typing import Final

POISON: Final = {
    b"{": "not_json",
    b'{"query_id": "x", "text": NaN}': "not_json",
    b"[" * 1500 + b"]" * 1500: "not_json",
    b'{"query_id": "x", "text": "y", "schema_version": 9}': "unsupported_version",
    b'{"query_id": "x"}': "invalid",
    b'{"query_id": "x", "text": "a", "text": "b"}': "invalid",
    b'{"query_id": "x", "text": "y", "filters": {}}': "invalid",
    b'{"query_id": "x", "vector": [1.0]}': "vector_dimension",
    b'{"query_id": "x", "text": "' + b"y" * 9000 + b'"}': "too_large",
    b'{"query_id": "x", "text": "' + b"y" * 500_000 + b'"}': "too_large",
}
