"""Each parameter of each stage: what is just inside its bounds is taken, what is just outside is named."""

import itertools
import math
import re
from typing import Any

import pytest

from schemas.recipes import Recipe, RecipeError
from schemas.recipes.recipe import STAGES
from tests.schemas.quoted import quoted
from tests.schemas.recipes.bounds import CHOICES, FLAGS, INTEGERS, NULLABLE, NUMBERS, SINGULAR, WEIGHTS, stages

BEYOND_NUMBERS = [
    *((*name, math.nextafter(least, -math.inf), least) for name, (least, _) in NUMBERS.items()),
    *((*name, math.nextafter(most, math.inf), most) for name, (_, most) in NUMBERS.items()),
]
BEYOND_INTEGERS = [
    *((*name, least - 1, rf"greater than or equal to {least}") for name, (least, _) in INTEGERS.items()),
    *((*name, most + 1, rf"less than (or equal to {most}|{most + 1})") for name, (_, most) in INTEGERS.items()),
]


def read(stage: str, parameter: str, value: Any) -> Any:
    """The parameter as a recipe with this value has it."""
    return Recipe.parse("test", {"stages": stages(stage, {parameter: value})}).parameters[stage][parameter]


def refusal(stage: str, parameter: str, value: Any) -> str:
    """The error of a recipe with this value."""
    with pytest.raises(RecipeError) as caught:
        read(stage, parameter, value)
    return str(caught.value)


def test_every_parameter_is_tested() -> None:
    """The bounds below are those of all parameters that the stages have, and of no others."""
    written = {(stage, parameter) for stage in STAGES for parameter in parameters_of(stage)}
    assert {*NUMBERS, *INTEGERS, *CHOICES, *FLAGS, *WEIGHTS, *SINGULAR} == written


def parameters_of(stage: str) -> dict[str, Any]:
    """A stage's parameters, by the names that a recipe gives them."""
    return Recipe.parse("test", {"stages": stages(stage, {})}).parameters[stage]


def test_a_number_may_be_its_bounds() -> None:
    """The least and the most are allowed."""
    for (stage, parameter), bounds in (*NUMBERS.items(), *INTEGERS.items()):
        for bound in bounds:
            assert read(stage, parameter, bound) == bound


def test_a_number_just_beyond_its_bound() -> None:
    """The next float outside is refused, with stage, parameter, bound and value."""
    for stage, parameter, value, bound in BEYOND_NUMBERS:
        expected = f"(greater|less) than or equal to {re.escape(f'{bound:.12g}')} {re.escape(quoted(value))}"
        assert re.fullmatch(rf"{stage}\.{parameter}: Input should be {expected}", refusal(stage, parameter, value))


def test_an_integer_just_beyond_its_bound() -> None:
    """The next integer outside is refused, with stage, parameter, bound and value."""
    for stage, parameter, value, bound in BEYOND_INTEGERS:
        assert re.fullmatch(rf"{stage}\.{parameter}: .*{bound} \({value}\)", refusal(stage, parameter, value))


@pytest.mark.parametrize("value", ["1", True, math.nan, math.inf, -math.inf, 10**400, [1], {}], ids=repr)
def test_only_a_finite_number_is_a_number(value: Any) -> None:
    """Strings, booleans, NaN, infinities, lists and what no float can hold are refused by name and value."""
    for stage, parameter in (*NUMBERS, *INTEGERS, ("rrf", "k")):
        said = refusal(stage, parameter, value)
        assert said.startswith(f"{stage}.{parameter}: ")
        assert said.endswith(quoted(value))


def test_a_number_may_not_be_null() -> None:
    """Null is no number; to leave a parameter out is to say nothing of it."""
    for stage, parameter in {*NUMBERS, *INTEGERS} - set(NULLABLE):
        assert refusal(stage, parameter, None).startswith(f"{stage}.{parameter}: ")


@pytest.mark.parametrize(("stage", "parameter"), NULLABLE)
def test_null_says_nothing(stage: str, parameter: str) -> None:
    """Null is the default if a default depends on the query or on another parameter."""
    assert parameters_of(stage)[parameter] is None
    assert read(stage, parameter, None) is None


def test_an_integer_has_no_fraction() -> None:
    """A float is refused where an integer is expected, even without a fraction."""
    for stage, parameter in INTEGERS:
        assert refusal(stage, parameter, 5.0).startswith(f"{stage}.{parameter}: ")


def test_an_integer_is_a_number() -> None:
    """A number may be written without a fraction."""
    for stage, parameter in NUMBERS:
        assert read(stage, parameter, 1) == 1.0


@pytest.mark.parametrize(("stage", "parameter"), CHOICES)
def test_each_choice_is_allowed(stage: str, parameter: str) -> None:
    """Of a closed list each entry is allowed."""
    for choice in CHOICES[stage, parameter]:
        assert read(stage, parameter, choice) == choice


@pytest.mark.parametrize("value", ["nothing", "", "1", 2, True, False, 0.5, math.nan, [], {}], ids=repr)
def test_nothing_else_is_a_choice(value: Any) -> None:
    """A value that isn't in the list is refused, with stage, parameter, the list and the value."""
    for stage, parameter in CHOICES:
        said = refusal(stage, parameter, value)
        assert said.startswith(f"{stage}.{parameter}: ")
        assert all(repr(choice) in said for choice in CHOICES[stage, parameter] if choice is not None)
        assert said.endswith(quoted(value))


@pytest.mark.parametrize(("stage", "parameter"), FLAGS)
def test_a_flag_is_a_boolean(stage: str, parameter: str) -> None:
    """Both are allowed, and nothing that merely resembles one."""
    assert parameters_of(stage)[parameter] is FLAGS[stage, parameter]
    assert read(stage, parameter, value=True) is True
    assert read(stage, parameter, value=False) is False
    others: list[Any] = [0, 1, "true", "no", 1.0, [], *([] if FLAGS[stage, parameter] is None else [None])]
    for value in others:
        assert refusal(stage, parameter, value).startswith(f"{stage}.{parameter}: ")


@pytest.mark.parametrize(("stage", "parameter"), WEIGHTS)
def test_weights_by_leg(stage: str, parameter: str) -> None:
    """Weights are by leg names of 1 to 64 characters, each from 0 to 1,000,000; none at all is allowed."""
    for weights in ({}, {"vector": 0.0, "l" * 64: 1e6}):
        assert read(stage, parameter, weights) == weights
    assert refusal(stage, parameter, {"vector": -0.001}).startswith(f"{stage}.weights.vector: ")
    for name in ("", "l" * 65):
        assert refusal(stage, parameter, {name: 1.0}).startswith(f"{stage}.weights.")
    for weight in (math.nextafter(1e6, math.inf), math.nan, math.inf, "1", True, None):
        said = refusal(stage, parameter, {"keyword": weight})
        assert said.startswith(f"{stage}.weights.keyword: ")
        assert said.endswith(quoted(weight))
    for value in ([], [1.0], 1.0, "vector"):
        assert refusal(stage, parameter, value).startswith(f"{stage}.weights: ")


def test_k_may_be_anything_but_next_to_nothing() -> None:
    """0 and less are allowed, as are 0.001 to 1,000,000; in between 1/k would be beyond all else."""
    for k in (-1e300, -1.0, 0.0, 0.001, 1e6):
        assert read("rrf", "k", k) == k
    assert re.fullmatch(r"rrf\.k: .*0 or less, or 0\.001 or more .*0\.000999.*", refusal("rrf", "k", 0.000999))
    assert re.fullmatch(
        r"rrf\.k: Input should be less than or equal to 1000000 .*", refusal("rrf", "k", math.nextafter(1e6, math.inf))
    )


def test_neutral_is_the_bound_or_a_share() -> None:
    """`bound`, which is the default, and 0 to 1 are allowed; any other word or number is not."""
    assert parameters_of("decay")["neutral"] == "bound"
    for neutral in ("bound", 0.0, 0.5, 1, 1.0):
        assert read("decay", "neutral", neutral) == neutral
    wrong: list[Any] = ["Bound", "", "0.5", -0.001, math.nextafter(1, 2), math.nan, math.inf, True, None, [], {}]
    for value in wrong:
        said = refusal("decay", "neutral", value)
        assert said.startswith("decay.neutral")
        assert said.endswith(quoted(value))


def test_stop_words_are_a_list_of_words() -> None:
    """None at all and 10,000 are allowed; one more, or what is no list of strings, is not."""
    for words in (None, [], ["und"] * 10_000):
        assert read("keyword_boost", "stop_words", words) == words
    for value in (["und"] * 10_001, "und", [1], [None], {"und": 1}):
        assert refusal("keyword_boost", "stop_words", value).startswith("keyword_boost.stop_words")


def test_an_unknown_parameter_is_named() -> None:
    """A parameter that the stage doesn't have is an error with its name and value."""
    for stage, parameter in itertools.product(STAGES, ["", "nonsense", "name", "scale", "lambda_"]):
        said = refusal(stage, parameter, 17)
        assert said.startswith(f"{stage}.{parameter}: ")
        assert said.endswith("(17)")


def test_the_preset_gives_what_is_not_given_beside_it() -> None:
    """`identity` is k 1.2, lambda 365, floor 0.6; what stands beside it goes before it."""
    parsed = Recipe.parse("test", {"stages": stages("weibull_decay", {"preset": "identity", "lambda": 30})})
    assert parsed.parameters["weibull_decay"] == {
        "enabled": False,
        "preset": "identity",
        "k": 1.2,
        "lambda": 30.0,
        "floor": 0.6,
    }


def test_every_wrong_parameter_is_named_at_once() -> None:
    """All that is wrong with a recipe is said in one error."""
    with pytest.raises(RecipeError) as caught:
        Recipe.parse(
            "test",
            {"stages": [{"score": {"alpha": 2, "limit": "a"}}, {"temporal": {"boost": True}}], "max_distance": -1},
        )
    for name in ("score.alpha", "score.limit", "temporal.boost", "max_distance"):
        assert f"{name}: " in str(caught.value)


@pytest.mark.parametrize("combination", ["geometric", "harmonic"])
def test_negative_scores_have_no_such_mean(combination: str) -> None:
    """z_score gives values below 0, so it goes with neither the geometric nor the harmonic mean."""
    with pytest.raises(RecipeError, match=rf"^score: .*z_score.*{combination}"):
        Recipe.parse("test", {"stages": [{"score": {"normaliser": "z_score", "combination": combination}}]})


def test_alpha_and_weights_are_two_ways_to_say_one_thing() -> None:
    """Both together are an error, even where they agree; each may be null."""
    with pytest.raises(RecipeError, match=r"^score: .*alpha.*weights"):
        Recipe.parse("test", {"stages": [{"score": {"alpha": 0.5, "weights": {}}}]})
    for parameters in ({"alpha": None, "weights": {"vector": 1.0}}, {"alpha": 0.5, "weights": None}):
        assert (
            parameters.items() <= Recipe.parse("test", {"stages": [{"score": parameters}]}).parameters["score"].items()
        )
