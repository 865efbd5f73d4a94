"""Code metrics of the repository, with bounds: `python -m tests.house` prints them and fails if one is over its bound.

Import circles, classes and names are read from the syntax, including type-only imports and cimports; phrases are
read from comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["acceptor", "shard", "router", "penstock", "console", "ops", "load", "pipeline", "pyspark_penstock"]
MIRRORED = [package for package in PACKAGES if package != "load"]
"""Packages whose modules have partners among the test modules; programs in `load/` are run instead."""

PHRASES = re.compile(
    r"(?:(?:^|[.:;]\s+)(?:Who|What|Whom|Whoever|Whatever)\s(?!.*\?))"
    r"|\b(?:what|who|whom)\s+(?:is|are|was|were|has|have|had|comes|came|goes|went|it|they|he|nobody|somebody)\b"
)
WORD = re.compile(r"[A-Za-z']+")


class Module:
    """One module of the repository: `.py` or `.pyx`, with its `.pxd`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        parts = path.relative_to(ROOT).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.text = path.read_text()

    @property
    def package(self) -> str:
        """The package that the module belongs to."""
        return self.name.partition(".")[0]

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree; empty for Cython, which `ast` cannot read."""
        return ast.parse(self.text if self.path.suffix == ".py" else "")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree."""
        return list(ast.walk(self.tree))

    @cached_property
    def declarations(self) -> str:
        """The Cython source of the module, and its declarations."""
        beside = self.path.with_suffix(".pxd")
        own = self.text if self.path.suffix == ".pyx" else ""
        return own + (beside.read_text() if beside.exists() else "")

    @cached_property
    def imports(self) -> set[str]:
        """The names that the module imports, at the top or anywhere else."""
        found = set()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        for module, names in re.findall(r"^from ([\w.]+) c?import ([^\n]+)", self.declarations, re.MULTILINE):
            found |= {module} | {f"{module}.{name.strip(' ()')}" for name in names.split(",")}
        return found

    def imported(self, modules: Set[str]) -> set[str]:
        """Return those of `modules` that the module imports."""
        return {name for name in self.imports & modules if name != self.name}

    def fields(self) -> dict[str, int]:
        """Return, for each class, the number of attributes that it declares or its methods assign."""
        found: dict[str, set[str]] = defaultdict(set)
        for owner in (node for node in self.nodes if isinstance(node, ast.ClassDef)):
            for node in ast.walk(owner):
                match node:
                    case ast.Attribute(value=ast.Name(id="self"), attr=attribute, ctx=ast.Store()):
                        found[owner.name].add(attribute)
            declared = (node.target for node in owner.body if isinstance(node, ast.AnnAssign))
            found[owner.name] |= {target.id for target in declared if isinstance(target, ast.Name)}
        return {f"{self.name}.{owner}": len(names) for owner, names in found.items()}

    def undocumented(self) -> tuple[int, int]:
        """Return the number of public classes, functions and methods without a docstring, and their total number.
        Overrides of a base's methods and properties count.
        """
        without = count = 0
        bodies = [self.tree.body, *(node.body for node in self.tree.body if isinstance(node, ast.ClassDef))]
        for body in bodies:
            for node in body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
                    "_"
                ):
                    count += 1
                    without += ast.get_docstring(node) is None
        return without, count

    def prose(self) -> Iterator[str]:
        """Yield comments, consecutive ones joined, and docstrings."""
        for node in self.nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                yield node.value.value
        block: list[str] = []
        last = -1
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type != tokenize.COMMENT:
                continue
            if token.start[0] != last + 1 and block:
                yield " ".join(block)
                block = []
            block.append(token.string.lstrip("#: "))
            last = token.start[0]
        yield " ".join(block)

    def lines_through_core(self) -> int:
        """Return the number of lines that reach through `.core.`."""
        code = (line.partition("#")[0] for line in self.text.splitlines())
        return sum(bool(re.search(r"\.core\.\w", line)) for line in code)


def modules_of(packages: Iterable[str]) -> list[Module]:
    """Return the modules of packages."""
    found = [
        path
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py*"))
        if path.suffix in {".py", ".pyx"}
    ]
    return [Module(path) for path in found]


def circles(modules: Iterable[Module]) -> list[list[str]]:
    """Return modules that import each other, directly or not."""
    modules = list(modules)
    names = {module.name for module in modules}
    return connected({module.name: sorted(module.imported(names)) for module in modules})


def connected(imports: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Return the strongly connected components of more than one (Tarjan, Depth-First Search and Linear Graph
    Algorithms, 1972).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in imports[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            component = stack[at:]
            del stack[at:]
            if len(component) > 1:
                found.append(sorted(component))

    for name in imports:
        if name not in index:
            visit(name)
    return found


def has_partner(module: Module) -> bool:
    """Whether a module has a test module where the layout of the folders requires one."""
    path = module.path.relative_to(ROOT)
    folder = ROOT / "tests" / path.parent
    return any((folder / f"test_{stem}.py").exists() for stem in (path.stem, path.stem.removesuffix("_cy")))


def circles_of_folders(modules: Iterable[Module]) -> list[list[str]]:
    """Return folders that import each other, directly or not."""
    modules = list(modules)
    names = {module.name for module in modules}
    imports: dict[str, set[str]] = defaultdict(set)
    for module in modules:
        imports[folder_of(module.name)] |= {folder_of(name) for name in module.imported(names)}
    return connected({folder: sorted(others - {folder}) for folder, others in imports.items()})


def folder_of(name: str) -> str:
    """Return a module's folder within its package; a module beside the folders stands for itself."""
    return ".".join(name.split(".")[:2])


class Figure(NamedTuple):
    """A number, the bound that it may not exceed, and its origin."""

    name: str
    value: float
    bound: float
    where: str = ""


def figures() -> Iterator[Figure]:
    """Yield all figures."""
    modules = modules_of(PACKAGES)
    in_circles = Counter(name.partition(".")[0] for circle in circles(modules) for name in circle)
    for package in PACKAGES:
        yield Figure(f"modules in circles, {package}", in_circles[package], {"acceptor": 5, "shard": 4}.get(package, 0))
    yield Figure("folders in circles", sum(map(len, circles_of_folders(modules))), 0)
    yield Figure("lines through .core.", sum(module.lines_through_core() for module in modules), 64)
    fields = [each for module in modules for each in module.fields().items()]
    largest = max(fields, key=lambda each: each[1])
    yield Figure("fields of the largest class", largest[1], 25, largest[0])
    longest = max(modules, key=lambda module: module.text.count("\n"))
    yield Figure("lines of the longest file", longest.text.count("\n"), 700, longest.name)
    mirrored = [module for module in modules_of(MIRRORED) if module.path.stem not in {"__init__", "__main__"}]
    alone = [module for module in mirrored if not has_partner(module)]
    yield Figure("modules without a partner among the tests, %", 100 * len(alone) / len(mirrored), 10)
    counts = [module.undocumented() for module in modules]
    yield Figure("public names without docstring, %", 100 * sum(c[0] for c in counts) / sum(c[1] for c in counts), 10)
    prose = [text for module in modules for text in module.prose()]
    words = sum(len(WORD.findall(text)) for text in prose)
    phrases = sum(len(PHRASES.findall(text)) for text in prose)
    yield Figure("noun phrases of who and what, per 1,000 words", 1000 * phrases / words, 1)


def main() -> int:
    """Print the figures; return 1 if one is over its bound."""
    over = 0
    for figure in figures():
        mark = "  " if figure.value <= figure.bound else "> "
        over += figure.value > figure.bound
        print(f"{mark}{figure.name:48} {figure.value:8.1f}   at most {figure.bound:g}   {figure.where}".rstrip())
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
