"""Resources: closed in reverse order whatever fails, and once."""

from functools import partial

import structlog

from flows.assembly import Resources


def test_the_last_registered_is_closed_first() -> None:
    """A resource that was made of another one is closed before it; nothing is closed twice."""
    closed: list[str] = []
    resources = Resources()
    for name in ("loop", "client", "reader"):
        resources.register(name, partial(closed.append, name))
    resources.close()
    resources.close()
    assert closed == ["reader", "client", "loop"]


def test_one_that_fails_leaves_no_other_open() -> None:
    """The failure is logged with the resource's name, and the others are closed."""
    closed: list[str] = []

    def fails() -> None:
        raise OSError("a secret")

    resources = Resources()
    resources.register("loop", lambda: closed.append("loop"))
    resources.register("client", fails)
    with structlog.testing.capture_logs() as logs:
        resources.close()
    assert closed == ["loop"]
    assert [(each["resource"], each["error"]) for each in logs] == [("client", "OSError")]
    assert "a secret" not in str(logs)


def test_a_block_closes_what_it_does_not_keep() -> None:
    """All that was made is closed if making the rest fails; if all is made, it outlives the block."""
    closed: list[str] = []

    def made(*, fails: bool) -> Resources:
        with Resources() as resources:
            resources.register("loop", lambda: closed.append("loop"))
            if fails:
                raise ValueError
            return resources.pop_all()

    try:
        made(fails=True)
    except ValueError:
        assert closed == ["loop"]
    kept = made(fails=False)
    assert closed == ["loop"]
    kept.close()
    assert closed == ["loop", "loop"]
