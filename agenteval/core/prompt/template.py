"""Jinja2, strict and shut in: a name nobody set is an error, and no file is ever read."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import DictLoader, StrictUndefined, Template, TemplateRuntimeError
from jinja2.sandbox import ImmutableSandboxedEnvironment

_TEMPLATES = ImmutableSandboxedEnvironment(
    loader=DictLoader({}),  # no file is ever included
    undefined=StrictUndefined,
    autoescape=False,  # the reader is a model and no browser
    keep_trailing_newline=True,
)


@lru_cache(maxsize=4096)
def _template(text: str) -> Template:
    return _TEMPLATES.from_string(text)


def fill(text: str, variables: Mapping[str, Any]) -> str:
    """`text` as a template; raises jinja2.TemplateError for whatever is wrong with it."""
    if "{" not in text:
        return text  # most queries and words hold nothing to fill
    try:
        return _template(text).render(variables)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TemplateRuntimeError(f"{type(error).__name__}: {error}") from error
