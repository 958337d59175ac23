"""Every parameter of every stage, and what it may be, as the specification has it."""

from collections.abc import Mapping
from typing import Any, Final

from schemas.recipes.fusion import FUSION

Parameter = tuple[str, str]
"""A stage and one of its parameters."""

_WEIGHT: Final = (0.0, 1e6)
_SHARE: Final = (0.0, 1.0)
_SPAN: Final = (0.001, 1e6)
_LIMIT: Final = (-(2**31), 2**31 - 1)

NUMBERS: Final[Mapping[Parameter, tuple[float, float]]] = {
    ("score", "alpha"): _SHARE,
    ("linear", "alpha"): _SHARE,
    **{(fusion, "fuzzy"): _WEIGHT for fusion in ("rrf", "score", "dbsf")},
    **{("weighted", f"{signal}_weight"): _WEIGHT for signal in ("keyword", "vector", "recency", "priority", "graph")},
    ("wishes", "weight"): _WEIGHT,
    ("weighted", "half_life_days"): _SPAN,
    ("weighted", "half_life_cycles"): _SPAN,
    ("weighted", "graph_edge_decay"): _WEIGHT,
    ("decay", "half_life_days"): (0.0, 1e6),
    ("decay", "step_threshold_days"): (0.0, 1e6),
    ("coverage", "weight"): _WEIGHT,
    ("coverage", "rarity"): (0.01, 100.0),
    ("rerank", "weight"): _SHARE,
    ("versions", "similarity"): (0.25, 1.0),
    ("versions", "margin"): _SHARE,
    ("rerank", "context"): _SHARE,
    ("feedback", "weight"): _SHARE,
    ("smoothing", "weight"): _SHARE,
    ("smoothing", "temperature"): (0.001, 1000.0),
    ("reflections", "reflection_boost"): _WEIGHT,
    ("reflections", "recency_weight"): _SHARE,
    ("reflections", "half_life_days"): _SPAN,
    ("reflections", "half_life_cycles"): _SPAN,
    **{("composite", term): _WEIGHT for term in ("relevance", "recency", "importance", "quality")},
    ("composite", "confidence_k"): (0.01, 100.0),
    ("composite", "confidence_lambda"): _SPAN,
    ("composite", "confidence_floor"): _SHARE,
    **{("answers", each): _SHARE for each in ("weight", "passed")},
    ("speakers", "weight"): _SHARE,
    ("temporal", "boost"): (-1e6, 1e6),
    ("near", "lat"): (-90.0, 90.0),
    ("near", "lon"): (-180.0, 180.0),
    ("near", "weight"): _SHARE,
    ("near", "half_distance_m"): (1.0, 1e8),
    ("weibull_decay", "k"): (0.01, 100.0),
    ("weibull_decay", "lambda"): _SPAN,
    ("weibull_decay", "floor"): (0.01, 1.0),
    ("keyword_boost", "weight"): _SHARE,
    ("importance_boost", "weight"): _SHARE,
}
"""The least and the most that is allowed."""

INTEGERS: Final[Mapping[Parameter, tuple[int, int]]] = {
    **{(stage.name, "limit"): _LIMIT for stage in FUSION},
    ("dedupe", "limit"): _LIMIT,
    ("weighted", "max_neighbors_per_candidate"): (0, 1000),
    **{(stage, "candidates"): (2, 200) for stage in ("feedback", "smoothing", "versions")},
    ("feedback", "top"): (1, 50),
    ("smoothing", "neighbours"): (1, 50),
    ("llm_rerank", "top_k"): (1, 200),
    ("rerank", "words"): (1, 100),
}

CHOICES: Final[Mapping[Parameter, tuple[Any, ...]]] = {
    ("score", "normaliser"): ("min_max", "theoretical", "credited", "z_score", "l2"),
    ("score", "combination"): ("sum", "arithmetic", "geometric", "harmonic"),
    ("decay", "mode"): (None, "exponential", "step"),
    ("composite", "importance_scale"): (5, 1),
    ("composite", "confidence_decay"): ("linear", "weibull"),
    ("temporal", "extractor"): ("rules", "chat"),
    ("near", "mode"): ("exponential", "step"),
    ("weibull_decay", "preset"): (None, "identity"),
    ("importance_boost", "importance_scale"): (5, 1),
}

FLAGS: Final[Mapping[Parameter, bool | None]] = {
    ("decay", "enabled"): None,
    ("reflections", "include_reflections"): True,
    ("weibull_decay", "enabled"): False,
    ("keyword_boost", "enabled"): False,
    ("importance_boost", "enabled"): False,
    ("llm_rerank", "enabled"): False,
    **{("wishes", kind): True for kind in ("limits", "exclusions", "order")},
    ("wishes", "strict"): False,
}
"""And what each is where nothing is said."""

WEIGHTS: Final = (("rrf", "weights"), ("score", "weights"), ("dbsf", "weights"))

DEFAULT_IS_MOST: Final = ("rerank", "weight")
"""The number whose default is its upper bound."""

NULLABLE: Final = (("score", "alpha"), ("reflections", "recency_weight"), ("near", "lat"), ("near", "lon"))
"""Numbers that may be null."""

SINGULAR: Final[Mapping[Parameter, Any]] = {
    ("rrf", "k"): 6.0,
    ("decay", "neutral"): 0.5,
    ("keyword_boost", "stop_words"): ["und"],
    ("near", "field"): "shop.at",
}
"""Those with rules of their own, and a value that isn't the default."""

_FUSIONS: Final = {stage.name for stage in FUSION}


def stages(stage: str, parameters: Mapping[str, Any]) -> list[Any]:
    """The shortest list of stages that has this one."""
    return [{stage: dict(parameters)}] if stage in _FUSIONS else ["score", {stage: dict(parameters)}]


def others() -> list[tuple[str, str, Any]]:
    """Each parameter with a value, within its bounds, that isn't its default."""
    return [
        *(
            (*parameter, 0.5 if parameter == DEFAULT_IS_MOST else least or most)
            for parameter, (least, most) in NUMBERS.items()
        ),
        *((*parameter, most) for parameter, (_, most) in INTEGERS.items()),
        *((*parameter, choices[1]) for parameter, choices in CHOICES.items()),
        *((*parameter, not default) for parameter, default in FLAGS.items()),
        *((*parameter, {"vector": 2.0}) for parameter in WEIGHTS),
        *((*parameter, value) for parameter, value in SINGULAR.items()),
    ]
