"""Templates, and the variables that a seed draws.

A stranger may have written a template: only the confined child of `sandbox.maker` fills one.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MethodType
from typing import Any

from jinja2 import DictLoader, StrictUndefined, Template, TemplateRuntimeError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from agenteval.core.chance import DRAWS, Chance, Value
from agenteval.core.scenario import Scenario


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, with a short cut for what fixtures use in every line: draws and texts."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is Chance and attribute in DRAWS:
            return getattr(obj, attribute)
        if type(obj) is Namespace and attribute.isalpha():
            value = getattr(obj, attribute, None)
            if type(value) is str:
                return value
        return super().getattr(obj, attribute)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if type(obj) is Chance:
            return attr in DRAWS
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(obj) is MethodType and type(obj.__self__) is Chance:
            kwargs.pop("_loop_vars", None)  # a template adds both, for functions that ask for them
            kwargs.pop("_block_vars", None)
            return obj(*args, **kwargs)
        return super().call(context, obj, *args, **kwargs)


_TEMPLATES = _Sandbox(
    loader=DictLoader({}),  # no file is ever included
    undefined=StrictUndefined,
    autoescape=False,  # the reader is a model and no browser
    keep_trailing_newline=True,
)


@lru_cache(maxsize=4096)
def _template(text: str) -> Template:
    return _TEMPLATES.from_string(text)


# What an author's expression may raise, from a division by zero to macros without end.
_SLIPS = (
    *(ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, MemoryError),
    *(OSError, RuntimeError, SyntaxError, TypeError, ValueError),
)


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """Fill `text` as a template; raises jinja2.TemplateError for whatever is wrong with it."""
    if "{" not in text:
        return text  # most queries and words hold nothing to fill
    try:
        return _template(text).render(variables)
    except _SLIPS as error:
        raise TemplateRuntimeError(f"{type(error).__name__}: {error}") from error


Variables = Mapping[str, Value]


def drawn(scenario: Scenario, seed: int) -> dict[str, Value]:
    """Return the variables of this seed, without the answers to an `[ask]`.

    A `[[variant]]` comes by turns, so neighbouring seeds use all equally; each `[draw]` has a
    stream of its own, so that one more changes no other.
    """
    variables: dict[str, Value] = dict(scenario.variants[seed % len(scenario.variants)])
    for name, draw in scenario.draws.items():
        variables[name] = draw.drawn(Chance(f"{scenario.name}/{seed}/{name}"))
    return variables


def script(scenario: Scenario, seed: int) -> str:
    """Return the SQL that fills the database for this seed. Its draws come from the seed too.

    Raises jinja2.TemplateError.
    """
    chance = Chance(f"{scenario.name}/{seed}//world")
    variables = {**drawn(scenario, seed), "words": scenario.words, "chance": chance}
    return fill(scenario.world, variables)


def one_line(query: str) -> str:
    return " ".join(query.split())
