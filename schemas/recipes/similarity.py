"""The stages that compare the first candidates with each other, by their dense vectors."""

from typing import Annotated, ClassVar

from pydantic import Field

from schemas.recipes.parameters import RecipeStage, Share


class SimilarityStage(RecipeStage):
    """A stage that reads the dense vectors of the first candidates; the others follow in their order."""

    candidates: Annotated[int, Field(ge=2, le=200)] = Field(
        default=50, description="Candidates whose dense vectors are read."
    )


class Feedback(SimilarityStage):
    """Pseudo-relevance feedback: what is like the best candidates gets a higher score."""

    name: ClassVar = "feedback"
    weight: Share = Field(default=0.4, description="Share of the similarity to the best candidates.")
    top: Annotated[int, Field(ge=1, le=50)] = Field(
        default=3, description="Candidates that are taken for the best: the others are compared with their mean."
    )


class Smoothing(SimilarityStage):
    """Score regularisation: a candidate's score moves towards those of the candidates that are like it."""

    name: ClassVar = "smoothing"
    weight: Share = Field(default=0.4, description="Share of the mean score of the nearest candidates.")
    neighbours: Annotated[int, Field(ge=1, le=50)] = Field(default=10, description="Nearest candidates that count.")
    temperature: Annotated[float, Field(ge=1e-3, le=1e3, allow_inf_nan=False)] = Field(
        default=0.05, description="How fast their weight falls with the cosine: exp(cosine / temperature)."
    )
