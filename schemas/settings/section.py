"""What every section of the configuration has in common."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

Seconds = Annotated[float, Field(gt=0, le=3600)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+")]


class Section(BaseModel):
    """A section: unknown keys are errors, and nothing changes after start."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Backend(Section):
    """A section of a backend that may ask for a key, given by the environment or in a file, never in the YAML."""

    api_key: SecretStr | None = Field(default=None, repr=False, description="Set by the environment only.")
    api_key_file: Path | None = None

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key and api_key_file are both set")
        return self

    def key(self) -> str | None:
        """The key, read from its file if it is in one. Raises OSError if the file can't be read."""
        if self.api_key_file is not None:
            return self.api_key_file.read_text(encoding="utf-8").strip()
        return self.api_key.get_secret_value().strip() if self.api_key is not None else None
