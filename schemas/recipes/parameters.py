"""What every stage of a recipe has in common, and the kinds of numbers that stages take."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from schemas.leg import KEYWORD, VECTOR

Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Span = Annotated[float, Field(ge=1e-3, le=1e6, allow_inf_nan=False)]
"""Days, cycles, or a shape: anything that something is divided by."""
Limit = Annotated[int, Field(ge=-(2**31), lt=2**31, description="At most so many; 0 or less: all.")]
Legs = tuple[str, ...]

NOTHING: frozenset[str] = frozenset()


class RecipeStage(BaseModel):
    """A stage's parameters. Raises pydantic's ValidationError for one that is unknown or out of its bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: ClassVar[str]

    @property
    def reads(self) -> frozenset[str]:
        """The payload fields that the stage asks for."""
        return NOTHING


class FusionStage(RecipeStage):
    """A stage that makes one list of the legs' lists: every recipe begins with one."""

    limit: Limit = 0

    @property
    def legs(self) -> Legs:
        """The legs that the stage wants asked."""
        return VECTOR, KEYWORD


class DistanceStage(RecipeStage):
    """A stage that works on distance = max(0, 1 - score); off unless it says otherwise."""

    enabled: bool = False
