"""Faults of single requests of a delivery: they are lost, unanswered, or arrive late, among later ones."""

import itertools
import time
from collections import Counter
from typing import Final

from tests.faults.scenario import scenario
from tests.faults.trial import Trial
from tests.integration.deployment import wait_until
from tests.kafka.frames import Api
from tests.kafka.interceptor import LATE, Fate, Order

POINTS: Final = (
    Api.INIT_PRODUCER_ID,
    Api.ADD_PARTITIONS_TO_TXN,
    Api.PRODUCE,
    Api.ADD_OFFSETS_TO_TXN,
    Api.TXN_OFFSET_COMMIT,
    Api.END_TXN,
)
"""The answers of the following transaction at which a late request arrives."""

STORM_S: Final = 20.0
UNDISTURBED_S: Final = 10.0

_WITHIN: Final = 120.0
"""Seconds. kafka-python learns of one refused record a transaction: as many abort as there are refused ones, first."""

_DELIVERIES: Final = POINTS[1:]


def late(trial: Trial, api: Api, *, committed: bool | None = None) -> None:
    """Have a request of this kind arrive late, held back and repeated, at each point."""
    outcomes: Counter[str] = Counter()
    for point, fate in itertools.product(POINTS, LATE):
        order = Order(fate, api, point, committed)
        _carry_out(trial, order)
        outcomes[_said(order)] += 1
    _note(trial, outcomes)


@scenario("late", broker="intercepted")
def late_commit(trial: Trial) -> None:
    """The end of a transaction, a commit, arrives once more at each point of the next."""
    late(trial, Api.END_TXN, committed=True)


@scenario("late", broker="intercepted", refused=frozenset({"too_large"}))
def late_abort(trial: Trial) -> None:
    """The end of a transaction that was aborted, for its records were refused, arrives once more in the next."""
    trial.alter("results", "max.message.bytes", 2000)
    late(trial, Api.END_TXN, committed=False)
    trial.alter("results", "max.message.bytes", 1_048_588)


@scenario("late", broker="intercepted")
def late_offsets(trial: Trial) -> None:
    """A transaction's offsets arrive once more at each point of the next, the last before a restart."""
    outcomes: Counter[str] = Counter()
    alone = trial.fleet["a"]
    trial.load.stop()
    for point, fate in zip(POINTS, itertools.cycle(LATE), strict=False):
        trial.await_all()
        order = Order(fate, Api.TXN_OFFSET_COMMIT, point)
        trial.wire.order(order)
        for _ in range(2):
            trial.load.ask(1, key=b"one partition")
            trial.await_all()
        assert order.fulfilled.wait(_WITHIN), f"nothing came late at {point.name}"
        outcomes[_said(order)] += 1
        # Who takes over reads what is committed.
        assert alone.stop() == 0
        alone.start()
    _note(trial, outcomes)


@scenario("late", broker="intercepted")
def late_add_offsets(trial: Trial) -> None:
    """The request that takes the group into a transaction arrives once more at each point of the next."""
    late(trial, Api.ADD_OFFSETS_TO_TXN)


@scenario("late", broker="intercepted")
def late_add_partitions(trial: Trial) -> None:
    """The request that takes partitions into a transaction arrives once more at each point of the next."""
    late(trial, Api.ADD_PARTITIONS_TO_TXN)


@scenario("late", broker="intercepted")
def late_produce(trial: Trial) -> None:
    """A transaction's records arrive once more at each point of the next."""
    late(trial, Api.PRODUCE)


@scenario("late", broker="intercepted")
def late_init(trial: Trial) -> None:
    """A producer's initialisation arrives once more at each point of its first transaction."""
    outcomes: Counter[str] = Counter()
    for point, fate in zip(POINTS, itertools.cycle(LATE), strict=False):
        order = Order(fate, Api.INIT_PRODUCER_ID, point)
        # A connection that breaks has the producer replaced, and so initialised.
        _carry_out(trial, order, Order(Fate.DROPPED, Api.TXN_OFFSET_COMMIT))
        outcomes[_said(order)] += 1
        trial.await_answer()
    _note(trial, outcomes)


@scenario("late", broker="intercepted")
def requests_lost(trial: Trial) -> None:
    """The connection breaks before the broker has read a request, of each kind."""
    _each(trial, Fate.DROPPED)


@scenario("late", broker="intercepted")
def answers_lost(trial: Trial) -> None:
    """The connection breaks after the broker has read a request, and before it answers, of each kind."""
    _each(trial, Fate.UNANSWERED)


@scenario("late", broker="intercepted")
def requests_delayed(trial: Trial) -> None:
    """A request of each kind takes its time, on a connection that holds."""
    _each(trial, Fate.DELAYED)


@scenario("late", broker="intercepted", replicas=2)
def late_after_rebalance(trial: Trial) -> None:
    """The request that ends a member's last transaction arrives after the next owner has taken its partitions."""
    for api, fate in zip((Api.END_TXN, Api.TXN_OFFSET_COMMIT), LATE, strict=True):
        order = Order(fate, api)
        trial.wire.order(order)
        trial.fleet["c"].start()
        assert order.caught is not None, f"no {api.name}"
        trial.wire.release(order)
        trial.await_answer()
        assert trial.fleet["c"].stop() == 0
        trial.await_answer()


@scenario("late", broker="intercepted")
def late_after_drain(trial: Trial) -> None:
    """The request that ends a replica's last transaction arrives when its successor is at work."""
    alone = trial.fleet["a"]
    for api, fate in zip((Api.END_TXN, Api.TXN_OFFSET_COMMIT), LATE, strict=True):
        trial.load.stop()
        trial.await_all()
        order = Order(fate, api)
        trial.wire.order(order)
        trial.load.ask(20)
        wait_until(lambda order=order: order.caught is not None)
        assert alone.stop() == 0
        alone.start()
        trial.load.start()
        trial.await_answer()
        trial.wire.release(order)
        trial.await_answer()


@scenario("late", broker="intercepted", settings={"delivery": {"mode": "at_least_once"}})
def late_offset_commit(trial: Trial) -> None:
    """Outside of transactions, offsets that arrive once more, last of all, lose nothing; a drain puts them right."""
    alone = trial.fleet["a"]
    for fate in LATE:
        order = Order(fate, Api.OFFSET_COMMIT)
        trial.wire.order(order)
        wait_until(lambda order=order: order.caught is not None)
        trial.await_answer()
        trial.load.stop()
        trial.await_all()
        trial.wire.release(order)
        assert order.errors == set(), f"the broker didn't take it: {order.errors}"
        assert alone.stop() == 0
        alone.start()
        trial.load.start()
        trial.await_answer()


@scenario("late", rate=150.0)
def undisturbed(trial: Trial) -> None:
    """Nothing is done to it, and no producer is replaced."""
    time.sleep(trial.seconds or UNDISTURBED_S)
    _note(trial, Counter())
    assert not trial.replaced(), "a producer was replaced"


@scenario("late", broker="intercepted", replicas=2)
def storm(trial: Trial) -> None:
    """Every second a request at random meets a fate at random, while a third replica joins and leaves."""
    began = time.time()
    ends = time.monotonic() + (trial.seconds or STORM_S)
    outcomes: Counter[str] = Counter()
    third = trial.fleet["c"]
    changes = itertools.cycle((lambda: third.start(wait=False), third.wait_ready, third.stop))
    while time.monotonic() < ends:
        fate = trial.rng.choice(list(Fate))
        order = Order(fate, trial.rng.choice(_DELIVERIES), trial.rng.choice((*POINTS, None)))
        trial.wire.order(order)
        time.sleep(1)
        if fate in LATE and order.caught is not None and not order.fulfilled.is_set():
            trial.wire.release(order)
        outcomes[f"{fate}"] += order.caught is not None
        if trial.rng.random() < 0.2:
            next(changes)()
    _note(trial, outcomes)
    asked = trial.asked()
    latencies = sorted(answer.arrival - asked[answer.place].timestamp for answer in trial.answers(began))
    trial.figures["p50, p99, ms"] = ", ".join(
        f"{1000 * latencies[int(part * len(latencies))]:.0f}" for part in (0.5, 0.99)
    )


def _each(trial: Trial, fate: Fate) -> None:
    for api in _DELIVERIES:
        _carry_out(trial, Order(fate, api))
        trial.await_answer()
    _carry_out(trial, Order(fate, Api.INIT_PRODUCER_ID), Order(Fate.DROPPED, Api.TXN_OFFSET_COMMIT))
    trial.await_answer()
    _note(trial, Counter())


def _carry_out(trial: Trial, order: Order, *others: Order) -> None:
    trial.wire.order(order, *others)
    assert order.fulfilled.wait(_WITHIN), f"{order.api.name} {order.fate} at {order.point}: {order.caught}"


def _said(order: Order) -> str:
    return f"errors {sorted(order.errors)}" if order.errors is not None else "no answer"


def _note(trial: Trial, outcomes: Counter[str]) -> None:
    if outcomes:
        trial.figures["what came late met"] = ", ".join(f"{what}: {times}" for what, times in outcomes.most_common())
    trial.figures["producers replaced"] = str(trial.replaced())
