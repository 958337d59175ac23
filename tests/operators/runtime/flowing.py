"""A flow around one stage: batches in, and what came out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bytewax import operators as op
from bytewax.dataflow import Dataflow, Stream
from bytewax.testing import TestingSink, TestingSource, run_main

from operators.runtime.stage import KEY


def kept(finished: Sequence[Any]) -> list[Any]:
    """Takes outcomes over as they are, so that a test sees them in the place of their items."""
    return list(finished)


def flowed(batches: Iterable[Sequence[Any]], stage: Callable[[Stream[Any]], Stream[Any]]) -> list[list[Any]]:
    """Run batches of items through a stage: the batches that left it, without those that were empty."""
    out: list[tuple[str, list[Any]]] = []
    flow = Dataflow("flowing")
    up = op.input("in", flow, TestingSource((KEY, list(batch)) for batch in batches))
    op.output("out", stage(up), TestingSink(out))
    run_main(flow)
    assert {key for key, _ in out} <= {KEY}
    return [items for _, items in out if items]


def items(batches: Iterable[Sequence[Any]], stage: Callable[[Stream[Any]], Stream[Any]]) -> list[Any]:
    """The items that left a stage."""
    return [item for batch in flowed(batches, stage) for item in batch]
