"""Growth of the time that work takes with its size: a ratio, which holds on any machine."""

import time
from collections.abc import Callable

LARGER = 8
LINEAR = 4 * LARGER
"""More than a linear ratio, since a machine is uneven; half of a quadratic one."""


def growth(work: Callable[[int], object], size: int) -> float:
    """The CPU time for a size LARGER times that of this one, over the time for this one; the least of three each."""

    def least(of: int) -> float:
        times = []
        for _ in range(3):
            began = time.thread_time()
            work(of)
            times.append(time.thread_time() - began)
        return min(times)

    return least(LARGER * size) / least(size)
