"""The examples in docstrings run, and give what they say."""

import doctest
from importlib import import_module

import pytest

EXAMPLES = {"operators.runtime.dispatcher": 1, "operators.runtime.stage": 1, "schemas.recipes.recipe": 1}
"""The number of docstrings with examples, by module."""


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_docstrings_run(module: str) -> None:
    """Each as it is written, with what its module has."""
    found = [each for each in doctest.DocTestFinder().find(import_module(module)) if each.examples]
    assert len(found) == EXAMPLES[module]
    runner = doctest.DocTestRunner()
    assert sum(runner.run(each).failed for each in found) == 0
