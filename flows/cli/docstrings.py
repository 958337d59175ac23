"""The demo's corpus: what the standard library says about itself.

Thousands of real texts that every Python installation carries: the docstrings of the library's public names.
"""

import importlib
import inspect
import os.path
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

NAMESPACE = "python"
SHORTEST = 30
"""Characters of a docstring below which it says too little to be searched for."""

# Importing these prints, opens a browser, changes the terminal or needs a display.
_LOUD = frozenset({"antigravity", "idlelib", "readline", "rlcompleter", "this", "tkinter", "turtle", "turtledemo"})
# These tell a reader nothing: tests, a hundred codecs of the same three sentences, the fixers of Python 2 programs,
# what setuptools puts in place of `distutils`, the private half of os.path.
_IDLE = frozenset({"distutils", "encodings", "genericpath", "lib2to3", "test", "tests"})


def docstrings() -> Iterator[dict[str, str]]:
    """Yield a document event for each public module, class, function, method and property with a docstring.

    `id` and `title` are the qualified name, `text` is the docstring; `module` and `kind` say where it was found and
    what it is. An object with several names is one document, under the name nearest the library's top. The order and
    the texts are the same in every process of one Python version. All public modules of the library are imported;
    those that this platform lacks are left out.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        corpus = _Corpus()
        for module in _modules():
            corpus.add_module(module)
    yield from corpus.events.values()


def _modules() -> list[ModuleType]:
    # All of them before the first is read: importing a module may replace a name in its package.
    names = [name for name in sys.stdlib_module_names if _public(name)]
    modules: dict[str, ModuleType] = {}
    while names:
        name = names.pop()
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        modules[name] = module
        inner = pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}.")
        names += [found.name for found in inner if _public(found.name.rpartition(".")[2])]
    return [modules[name] for name in sorted(modules, key=lambda name: (name.count("."), name))]


def _public(name: str) -> bool:
    return not name.startswith("_") and name not in _LOUD | _IDLE


class _Corpus:
    def __init__(self) -> None:
        self.events: dict[str, dict[str, str]] = {}
        # The objects themselves, so that no identity is used twice.
        self._seen: dict[int, object] = {}

    def add_module(self, module: ModuleType) -> None:
        name = "os.path" if module is os.path else module.__name__
        self._add(name, module, name, "module")
        listed = getattr(module, "__all__", None)
        for attribute in sorted(listed if listed is not None else vars(module)):
            member = getattr(module, attribute, None)
            if attribute.startswith("_") or not (inspect.isclass(member) or inspect.isroutine(member)):
                continue
            if _belongs(member, module, listed is not None):
                self._add_member(f"{name}.{attribute}", member, name, "function")

    def _add_member(self, name: str, member: object, module: str, kind: str) -> None:
        if not inspect.isclass(member):
            self._add(name, member, module, kind)
        elif self._add(name, member, module, "class"):
            attributes = vars(member)
            # A method with two names goes by the one that it was defined with.
            for attribute in sorted(
                attributes, key=lambda key: (getattr(attributes[key], "__name__", key) != key, key)
            ):
                inner = attributes[attribute]
                if attribute.startswith("_"):
                    continue
                if isinstance(inner, property) or inspect.isdatadescriptor(inner):
                    self._add(f"{name}.{attribute}", inner, module, "property")
                elif inspect.isclass(inner) or inspect.isroutine(inner):
                    self._add_member(f"{name}.{attribute}", inner, module, "method")

    def _add(self, name: str, thing: object, module: str, kind: str) -> bool:
        """Say whether `thing` was seen for the first time, having added what it says."""
        thing = getattr(thing, "__func__", thing)
        if id(thing) in self._seen:
            return False
        self._seen[id(thing)] = thing
        doc = getattr(thing, "__doc__", None)
        if isinstance(doc, str) and len(doc := inspect.cleandoc(doc)) >= SHORTEST:
            self.events[name] = {
                "id": name,
                "namespace": NAMESPACE,
                "title": name,
                "text": doc,
                "module": module,
                "kind": kind,
            }
        return True


def _belongs(member: object, module: ModuleType, listed: bool) -> bool:
    home = getattr(member, "__module__", None) or ""
    if listed:
        # A debugger or a test runner may have put its own function in place of the library's.
        return home.partition(".")[0] in sys.stdlib_module_names
    return home in (module.__name__, f"_{module.__name__}")
