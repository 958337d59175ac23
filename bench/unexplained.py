"""The ranking modules without the feature of explaining: what explains is cut out of them.

What is left is what there would be if nobody had ever asked for an explanation: the price of the feature, unused, is
measured against it.
"""

import ast
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Final

import operators.ranking

PACKAGE: Final = "unexplained_ranking"
ORIGINAL: Final = "operators.ranking"
EXPLAINS: Final = frozenset(f"{owner}explanations is not None" for owner in ("run.", "self.", ""))
"""Conditions of what explains."""


class _Cut(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "run.rescore":
            # The stage, the candidates and their scores stay: the rest explains these.
            node.args, node.keywords = node.args[:3], []
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        self.generic_visit(node)
        if ast.unparse(node.test) in EXPLAINS:
            return None
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        if node.module and (node.module == ORIGINAL or node.module.startswith(f"{ORIGINAL}.")):
            node.module = node.module.replace(ORIGINAL, PACKAGE, 1)
        return node


def without_explanations(source: str) -> ast.Module:
    """The module without what explains, importing its siblings from PACKAGE."""
    cut: ast.Module = _Cut().visit(ast.parse(source))
    return ast.fix_missing_locations(cut)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  the protocol's signature
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if fullname != PACKAGE and not fullname.startswith(f"{PACKAGE}."):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=fullname == PACKAGE)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix(PACKAGE).removeprefix(".") or "__init__"
        file = self._directory / f"{name}.py"
        exec(compile(without_explanations(file.read_text(encoding="utf-8")), str(file), "exec"), module.__dict__)


def pipeline() -> ModuleType:
    """The module `pipeline` of that package."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(Path(operators.ranking.__path__[0])))
    loaded: ModuleType = importlib.import_module(f"{PACKAGE}.pipeline")
    return loaded
