"""The schema of the Helm chart's values: of `config`, it is that of the configuration itself."""

import json
from pathlib import Path
from typing import Any, Final

from schemas.settings import Settings

OWN: Final = ("authority", "destination", "flow")
"""The definitions that are written by hand."""

_WORDS: Final = ("title", "description", "default")


def page(file: Path) -> str:
    """The text of the schema: the part by hand as it is, and the configuration's part from the settings."""
    schema = json.loads(file.read_text(encoding="utf-8"))
    settings = Settings.model_json_schema(ref_template="#/definitions/{model}")
    models = {**settings.pop("$defs"), "Settings": settings}
    own = {name: schema["definitions"][name] for name in OWN}
    # What is needed and missing, a template says.
    settings["required"] = []
    url = models["QdrantSettings"]["properties"]["url"]
    url["anyOf"].append({"const": ""})
    schema["properties"]["config"] = {"$ref": "#/definitions/Settings"}
    schema["definitions"] = own
    text = json.dumps(schema, indent=2)
    generated = "".join(f',\n    "{name}": {json.dumps(_bare(model))}' for name, model in sorted(models.items()))
    head, tail = text[: text.rindex("\n  }")], text[text.rindex("\n  }") :]
    return f"{head}{generated}{tail}\n"


def _bare(node: Any, *, names: bool = False) -> Any:
    """The schema without words, which values do not depend on; `names`: the keys are names, not keywords."""
    if isinstance(node, list):
        return [_bare(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _bare(value, names=key in ("properties", "patternProperties") and not names)
        for key, value in node.items()
        if names or key not in _WORDS
    }
