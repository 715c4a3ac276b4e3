"""Packages whose parts are imported, and tables that are read, on first use: start-up is short."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# The variable that keeps the working folder out of the imports of a Python of ours that a command
# starts. The value marks it as ours: a program of the user's is not started with it.
OWN_SAFE_PATH = ("PYTHONSAFEPATH", "agenteval")


def submodules(package: str) -> Callable[[str], ModuleType]:
    """Return the `__getattr__` of a package: `package.part` is that module, without an import."""

    def part(name: str) -> ModuleType:
        module = f"{package}.{name}"
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
            raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

    return part


def attributes(package: str, homes: Mapping[str, str]) -> "Callable[[str], Any]":
    """Return the `__getattr__` of a package that has names of its modules: name to module."""

    def attribute(name: str) -> "Any":
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return attribute


def read_table(package: str, name: str) -> "dict[str, Any]":
    """Return a table that lies as TOML next to the modules of a package."""
    import tomllib  # noqa: PLC0415 -- start-up: an allowed call needs no table
    from pkgutil import get_data  # noqa: PLC0415 -- likewise

    content = get_data(package, name) or b""
    return tomllib.loads(content.decode())
