"""The base of every stage of a recipe, and the types of parameters."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.leg import KEYWORD, VECTOR

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Span = Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)]
"""Days or cycles: a divisor, and so never 0."""
Limit = Annotated[int, Field(ge=-(2**31), lt=2**31, description="Candidates that the stage keeps; 0 or less: all.")]
Legs = tuple[str, ...]

NOTHING: frozenset[str] = frozenset()


class RecipeStage(BaseModel):
    """A stage's parameters. An unknown one, or one out of its bounds, raises pydantic's ValidationError."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: ClassVar[str]

    @property
    def reads(self) -> frozenset[str]:
        """The payload fields that the stage reads."""
        return NOTHING


class FusionStage(RecipeStage):
    """A stage that fuses the hits of the legs into one list. Every recipe begins with one."""

    limit: Limit = 0

    @property
    def legs(self) -> Legs:
        """The legs that the stage needs."""
        return VECTOR, KEYWORD

    @property
    def unasked(self) -> Legs:
        """The legs of a query that has nothing to search by. None: such a query finds nothing."""
        return ()


class DistanceStage(RecipeStage):
    """A stage that works on distance = max(0, 1 - score)."""

    enabled: bool = Field(default=False, description="Whether the stage runs.")
