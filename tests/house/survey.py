"""The numbers of the house: how many parts it has, how deep they stand, how large they are.

`python tests/house/survey.py` prints them beside today's bound and the aim.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "agenteval"
SMALL = 40  # lines
FLOORS = {"cli", "api", "workflows"}  # what a user does, a module each: typed, called, done
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_EVERYTHING = {"Exception", "BaseException"}


@dataclass(frozen=True)
class Module:
    """One file, with the modules of the house that it imports."""

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

    @cached_property
    def functions(self) -> list[tuple[str, int]]:
        found = [node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION)]
        return [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in found]

    @cached_property
    def inner_imports(self) -> list[int]:
        """The lines of imports that a function makes."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, _FUNCTION)]
        return sorted({one.lineno for function in functions for one in _imports(function)})

    @cached_property
    def broad_excepts(self) -> list[int]:
        handlers = [node for node in ast.walk(self.tree) if isinstance(node, ast.ExceptHandler)]
        return [one.lineno for one in handlers if _is_broad(one)]

    @cached_property
    def entry(self) -> bool:
        """Whether it is a program of its own: started, not imported."""
        return self.path.name == "__main__.py" or any(
            isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)
            for node in self.tree.body
        )


class House:
    """All modules of a package, and who imports whom."""

    def __init__(self, package: Path = PACKAGE) -> None:
        paths = [path for path in sorted(package.rglob("*.py")) if not _foreign(path, package)]
        self.package = package
        self.modules = {
            name: Module(name, path, text, ast.parse(text))
            for path in paths
            for name, text in [(_name(path, package), path.read_text("utf-8"))]
        }

    @cached_property
    def imports(self) -> Mapping[str, set[str]]:
        """By module, wherever the import stands but for those that only types need."""
        return {
            name: {each for node in _imports(module.tree) for each in self._meant(node)} - {name}
            for name, module in self.modules.items()
        }

    def _meant(self, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """A name may be a module, or what a module has."""
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in self.modules)
            return
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            if inner in self.modules:
                yield inner
            elif node.module in self.modules:
                yield node.module

    @cached_property
    def importers(self) -> Mapping[str, set[str]]:
        found = defaultdict(set)
        for name, used in self.imports.items():
            for one in used:
                found[one].add(name)
        return found

    @cached_property
    def chain(self) -> list[str]:
        """The longest chain of modules of which each imports the next."""
        longest: dict[str, list[str]] = {}

        def below(name: str) -> list[str]:
            if name not in longest:
                longest[name] = [name]  # in a cycle, of which there are none, it ends here
                chains = [below(used) for used in sorted(self.imports[name])]
                longest[name] = [name, *max(chains, key=len, default=[])]
            return longest[name]

        return max(map(below, self.modules), key=len)

    @property
    def slivers(self) -> list[str]:
        """Small modules that one other imports, and that are no program of their own."""
        return [
            name
            for name, module in self.modules.items()
            if module.lines < SMALL
            and len(self.importers[name]) == 1
            and not module.entry
            and module.path.name != "__init__.py"
        ]

    @property
    def repeated(self) -> dict[str, int]:
        """Base names that several modules have, other than as the same part of sister packages."""
        places = defaultdict(list)
        for module in self.modules.values():
            if module.path.stem not in {"__init__", "__main__"}:
                places[module.path.stem].append(module.path.parent)
        return {
            stem: len(parents)
            for stem, parents in places.items()
            if len(parents) > 1 and not self._sisters(parents)
        }

    def _sisters(self, parents: list[Path]) -> bool:
        """Whether parallel packages have them: each dialect its `engine`, each floor its `gate`."""
        if {one.relative_to(self.package).as_posix() for one in parents} <= FLOORS:
            return True
        return len({one.parent for one in parents}) == 1 and parents[0].parent != self.package

    @property
    def without_front_door(self) -> list[str]:
        """Packages whose __init__.py does not name, as `NAME` or NAME.py, one of their modules."""
        folders = {module.path.parent for module in self.modules.values()}
        packages = sorted(_name(folder / "__init__.py", self.package) for folder in folders)
        return [name for name in packages if not self._named(name)]

    def _named(self, package: str) -> set[str]:
        """The modules of a package that it says are to be read."""
        if package not in self.modules:
            return set()
        words = re.findall(r"\b(\w+)(?:`|\.py\b)", self.modules[package].docstring)
        return {word for word in words if f"{package}.{word}" in self.modules}

    def numbers(self) -> dict[str, int]:
        """Each is to be small."""
        modules = [one for one in self.modules.values() if one.lines >= 5]
        functions = sorted(size for one in modules for _, size in one.functions)
        sizes = sorted(one.lines for one in modules)
        return {
            "modules": len(modules),
            "lines": sum(sizes),
            "small modules with one importer": len(self.slivers),
            "base names used more than once": len(self.repeated),
            "longest chain of imports": len(self.chain),
            "imports inside functions": sum(len(one.inner_imports) for one in modules),
            "lines a module, median": round(median(sizes)),
            "lines a module, 9 of 10": sizes[len(sizes) * 9 // 10],
            "lines a module, most": sizes[-1],
            "lines a function, median": round(median(functions)),
            "lines a function, 9 of 10": functions[len(functions) * 9 // 10],
            "lines a function, most": functions[-1],
            "broad excepts": sum(len(one.broad_excepts) for one in modules),
            "packages without a front door": len(self.without_front_door),
        }


def _name(path: Path, package: Path) -> str:
    name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _foreign(path: Path, package: Path) -> bool:
    """Worlds that are shipped, and what a build wrote."""
    return (
        path.name == "_version.py"
        or {"shipped", "skeleton_files"} & {*path.relative_to(package).parts} != set()
    )


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """All below, but for those that only types need."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
            yield from _imports(child)


def _is_broad(handler: ast.ExceptHandler) -> bool:
    """Whether it takes whatever comes; what cleans up and raises it again takes nothing."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type
    types = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(one is None or getattr(one, "id", "") in _EVERYTHING for one in types)


def table(house: House, bounds: Mapping[str, tuple[int, int | None]]) -> str:
    """Each number beside the bound that a test keeps, and the aim."""
    lines = [f"{'':34}{'now':>8}{'bound':>8}{'aim':>8}"]
    for name, value in house.numbers().items():
        bound, aim = bounds.get(name, (None, None))
        lines.append(f"{name:34}{value:>8}{_cell(bound)}{_cell(aim)}")
    repeated = Counter(house.repeated).most_common()
    lines += ["", "repeated: " + ", ".join(f"{stem} x {times}" for stem, times in repeated)]
    lines += ["chain: " + " > ".join(name.removeprefix("agenteval.") for name in house.chain)]
    return "\n".join(lines)


def _cell(value: int | None) -> str:
    return f"{'' if value is None else value:>8}"


if __name__ == "__main__":
    from bounds import BOUNDS

    print(table(House(), BOUNDS))  # noqa: T201 - what it is for
