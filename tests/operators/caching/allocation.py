"""The bytes that modules have allocated. Threads that other tests left allocate meanwhile, too, and don't count."""

import tracemalloc
from types import ModuleType


def allocated(test: str, *modules: ModuleType) -> int:
    """Bytes that the file of a test and these modules have allocated since tracing began, and not given back."""
    files = [test, *(str(module.__file__) for module in modules)]
    own = [tracemalloc.Filter(True, name) for name in files]
    return sum(each.size for each in tracemalloc.take_snapshot().filter_traces(own).statistics("filename"))
