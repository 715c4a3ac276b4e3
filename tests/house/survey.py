"""The figures of the code: modules, the imports between them, their size, names and density.

`python tests/house/survey.py` prints each figure with today's bound and the aim.
`python tests/house/survey.py --list FIGURE` prints the places that a figure counts.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

from circles import find_circles
from wording import METAPHORS, Wording

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agenteval"
_SMALLEST = 5  # lines: a shorter module, such as an empty __init__, is counted in no figure
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_BROAD = {"Exception", "BaseException"}


@dataclass(frozen=True)
class Module:
    """One file of the package, parsed."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def wording(self) -> Wording:
        return Wording(self.text, self.tree)

    @cached_property
    def functions(self) -> list[tuple[str, int]]:
        """Name and lines of each function, the inner ones included."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION)]
        return [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in nodes]

    @cached_property
    def inner_imports(self) -> list[int]:
        """The lines of imports that stand within functions."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION)]
        return sorted({node.lineno for function in functions for node in _imports(function)})

    @cached_property
    def broad_excepts(self) -> list[int]:
        handlers = [node for node in ast.walk(self.tree) if isinstance(node, ast.ExceptHandler)]
        return [handler.lineno for handler in handlers if _is_broad(handler)]

    @cached_property
    def public_names(self) -> list[str]:
        """The functions and classes of its top level that other modules may use.

        A decorated one is left out: what it registers in is its user.
        """
        return [
            node.name
            for node in self.tree.body
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
            and not (node.decorator_list and isinstance(node, _FUNCTION))
        ]


class House:
    """All modules of a package, and the imports between them.

    An import counts wherever it stands: within a function, under TYPE_CHECKING, or as
    `package.part` of a package that imports its parts when they are first used.
    """

    def __init__(self, package: Path = PACKAGE) -> None:
        paths = [path for path in sorted(package.rglob("*.py")) if not _is_foreign(path, package)]
        self.package = package
        self.modules: dict[str, Module] = {}
        for path in paths:
            name = _module_name(path, package)
            text = path.read_text("utf-8")
            self.modules[name] = Module(name, path, text, ast.parse(text))

    @cached_property
    def imports(self) -> Mapping[str, set[str]]:
        return {
            name: {*self._imported(module.tree), *self._used_parts(module.tree)} - {name}
            for name, module in self.modules.items()
        }

    def _imported(self, tree: ast.AST) -> Iterator[str]:
        for node in _imports(tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names if alias.name in self.modules)
                continue
            for alias in node.names:
                part = f"{node.module}.{alias.name}"
                target = part if part in self.modules else node.module or ""
                if target in self.modules:
                    yield target

    def _used_parts(self, tree: ast.AST) -> Iterator[str]:
        """The modules that are used as `package.part`."""
        packages = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in _imports(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                part = f"{packages.get(node.value.id)}.{node.attr}"
                if part in self.modules:
                    yield part

    @cached_property
    def importers(self) -> Mapping[str, set[str]]:
        importers = defaultdict(set)
        for name, targets in self.imports.items():
            for target in targets:
                importers[target].add(name)
        return importers

    @cached_property
    def circles(self) -> list[list[str]]:
        return find_circles(self.imports)

    @property
    def single_importers(self) -> list[str]:
        """The modules that one other module imports, packages' `__init__` left out."""
        return [
            name
            for name, module in self.modules.items()
            if len(self.importers[name]) == 1 and not module.is_package
        ]

    @property
    def unused_public_names(self) -> list[str]:
        """Public names that no other module and no template of the package mentions."""
        mentions = Counter(
            word
            for path in self.package.rglob("*")
            if path.suffix in {".py", ".html", ".jinja", ".toml"}
            and not _is_foreign(path, self.package)
            for word in {*re.findall(r"\w+", path.read_text("utf-8"))}
        )
        return [
            f"{module.name}.{name}"
            for module in self.modules.values()
            for name in module.public_names
            if mentions[name] == 1 and len(re.findall(rf"\b{name}\b", module.text)) > 1
        ]

    @property
    def repeated_stems(self) -> dict[str, int]:
        """File names that several modules have, except as the same part of sister packages."""
        folders = defaultdict(list)
        for module in self.modules.values():
            if module.path.stem not in {"__init__", "__main__"}:
                folders[module.path.stem].append(module.path.parent)
        return {
            stem: len(parents)
            for stem, parents in folders.items()
            if len(parents) > 1 and not self._are_sisters(parents)
        }

    def _are_sisters(self, folders: list[Path]) -> bool:
        """True of parallel packages: each dialect has its `engine`, each floor its `gate`."""
        if {folder.relative_to(self.package).as_posix() for folder in folders} <= FLOORS:
            return True
        parents = {folder.parent for folder in folders}
        return len(parents) == 1 and folders[0].parent != self.package

    @property
    def metaphor_modules(self) -> list[str]:
        return [
            module.name
            for module in self.modules.values()
            if METAPHORS & {*re.findall(r"[a-z]+", module.path.stem)}
        ]

    @property
    def without_front_door(self) -> list[str]:
        """Packages whose __init__.py names none of their modules, as `NAME` or NAME.py."""
        folders = {module.path.parent for module in self.modules.values()}
        packages = sorted(_module_name(folder / "__init__.py", self.package) for folder in folders)
        return [name for name in packages if not self._names_a_part(name)]

    def _names_a_part(self, package: str) -> bool:
        if package not in self.modules:
            return False
        words = re.findall(r"\b(\w+)(?:`|\.py\b)", self.modules[package].docstring)
        return any(f"{package}.{word}" in self.modules for word in words)

    def numbers(self) -> dict[str, float]:
        """Return the figures; each is better when it is lower."""
        modules = [module for module in self.modules.values() if module.lines >= _SMALLEST]
        functions = sorted(size for module in modules for _, size in module.functions)
        sizes = sorted(module.lines for module in modules)
        wording = [module.wording for module in modules]
        code_lines = sum(text.code_lines for text in wording)
        comments = sum(text.comment_lines for text in wording)
        bare = Counter(kind for text in wording for kind, _, _ in text.bare_names)
        return {
            "modules": len(modules),
            "lines": sum(sizes),
            "tokens of code": sum(text.tokens for text in wording),
            "single importers": len(self.single_importers),
            "modules in circles": sum(map(len, self.circles)),
            "base names used more than once": len(self.repeated_stems),
            "imports inside functions": sum(len(module.inner_imports) for module in modules),
            "public names used at home alone": len(self.unused_public_names),
            "lines a module, median": round(median(sizes)),
            "lines a module, most": sizes[-1],
            "lines a function, median": round(median(functions)),
            "lines a function, 9 of 10": functions[len(functions) * 9 // 10],
            "lines a function, most": functions[-1],
            "tokens a line of code": round(sum(text.tokens for text in wording) / code_lines, 2),
            "lines a comment": round(sum(sizes) / max(comments, 1), 1),
            "bare names: functions": bare["function"],
            "bare names: arguments": bare["argument"],
            "bare names: variables": bare["variable"],
            "metaphors": sum(len(text.metaphors) for text in wording) + len(self.metaphor_modules),
            "docstrings without a verb or a noun": sum(
                len(text.bare_docstrings) for text in wording
            ),
            "broad excepts": sum(len(module.broad_excepts) for module in modules),
            "packages without a front door": len(self.without_front_door),
        }

    def places(self, figure: str) -> list[str]:
        """Return the places that a figure counts; empty for a figure that has none."""
        modules = self.modules.values()
        if figure.startswith("bare names: "):
            kind = figure.removeprefix("bare names: ").removesuffix("s")
            return [
                f"{module.path}:{line}: {name}"
                for module in modules
                for bare_kind, name, line in module.wording.bare_names
                if bare_kind == kind
            ]
        return {
            "single importers": self.single_importers,
            "modules in circles": [" <-> ".join(circle) for circle in self.circles],
            "public names used at home alone": self.unused_public_names,
            "packages without a front door": self.without_front_door,
            "metaphors": [
                *self.metaphor_modules,
                *(
                    f"{module.path}:{line}: {name}"
                    for module in modules
                    for name, line in module.wording.metaphors
                ),
            ],
            "docstrings without a verb or a noun": [
                f"{module.path}:{line}: {first}"
                for module in modules
                for first, line in module.wording.bare_docstrings
            ],
            "tokens a line of code": [
                f"{module.wording.density:.1f} {module.path}"
                for module in sorted(modules, key=lambda module: -module.wording.density)
            ],
        }.get(figure, [])


FLOORS = {"cli", "api", "workflows"}  # what a user does has a module of one name on each


def _module_name(path: Path, package: Path) -> str:
    name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _is_foreign(path: Path, package: Path) -> bool:
    """True of fixtures that are shipped within the package."""
    return bool({"shipped", "skeleton_files"} & {*path.relative_to(package).parts})


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node


def _is_broad(handler: ast.ExceptHandler) -> bool:
    """True where it catches whatever comes, unless it cleans up and raises the same again."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type
    types = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(kind is None or getattr(kind, "id", "") in _BROAD for kind in types)


def table(house: House, bounds: Mapping[str, tuple[float, float | None]]) -> str:
    """Render each figure with the bound that a test keeps, and the aim."""
    lines = [f"{'':38}{'now':>9}{'bound':>9}{'aim':>9}"]
    for name, value in house.numbers().items():
        bound, aim = bounds.get(name, (None, None))
        lines.append(f"{name:38}{value:>9}{_cell(bound)}{_cell(aim)}")
    circles = "; ".join(" <-> ".join(circle) for circle in house.circles)
    return "\n".join([*lines, "", f"circles: {circles or 'none'}".replace("agenteval.", "")])


def _cell(value: float | None) -> str:
    return f"{'' if value is None else value:>9}"


if __name__ == "__main__":
    from bounds import BOUNDS

    if sys.argv[1:2] == ["--list"]:
        print("\n".join(House().places(sys.argv[2])))  # noqa: T201 - what it is for
    else:
        print(table(House(), BOUNDS))  # noqa: T201 - what it is for
