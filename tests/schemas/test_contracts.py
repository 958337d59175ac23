"""The contracts: they are those of the models, and the repository has them as they are now."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from schemas import contracts
from schemas import headers as names
from schemas.settings import Topics

KEPT = Path(__file__).parents[2] / "docs" / "schemas"


def test_the_repository_has_the_contracts_as_they_are() -> None:
    """`rankstream schema --write docs/schemas` would change nothing."""
    kept = {path.stem: orjson.loads(path.read_bytes()) for path in KEPT.glob("*.json")}
    assert kept == orjson.loads(orjson.dumps(contracts.all_contracts())), "run `rankstream schema --write docs/schemas`"


def test_every_topic_and_header_is_described() -> None:
    """AsyncAPI has a channel for each topic of the configuration, and the dead letters' headers."""
    document = contracts.asyncapi()
    assert document["channels"].keys() == Topics.model_fields.keys() - {"reply_to"}
    headers = document["components"]["messages"]["dead_letter"]["headers"]["properties"]
    written = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert headers.keys() == {name for name in written if name.startswith("__connect")} - {names.ERROR_PREFIX}


def references(document: Any) -> list[str]:
    """Every `$ref` in a document."""
    if isinstance(document, dict):
        own = [document["$ref"]] if isinstance(document.get("$ref"), str) else []
        return own + [each for value in document.values() for each in references(value)]
    return [each for value in document for each in references(value)] if isinstance(document, list) else []


@pytest.mark.parametrize("file", sorted(KEPT.glob("*.json")), ids=lambda file: file.stem)
def test_every_reference_leads_somewhere(file: Path) -> None:
    """Inside the document, or to another contract beside it."""
    made = orjson.loads(file.read_bytes())
    for reference in references(made):
        other, _, path = reference.partition("#")
        at = orjson.loads((KEPT / other).read_bytes()) if other else made
        for part in path.strip("/").split("/") if path else []:
            at = at[part.replace("~1", "/").replace("~0", "~")]
        assert isinstance(at, dict)
