"""The rules that stand in a prompt: a variant of ours by name, or a file of the user's."""

import hashlib
from pathlib import Path

from jinja2 import TemplateError

from agenteval.config.arms import arm_named
from agenteval.core.prompt.setting import VARIANTS, VERSION, Place, Setting
from agenteval.errors import UsageError

TOOLS = ("bash", "read", "write")


def load_setting(arm: str, variant: str | None, place: Place, context: str) -> Setting:
    """Without a `variant` the arm's own; `context` is a number of tokens, such as 40k or 32768.

    Raises UsageError for what is unknown or no number, and for a template with a fault.
    """
    chosen = arm_named(arm)
    variant = variant or chosen.rules
    rules = VARIANTS.get(variant)
    name = f"{variant}/{VERSION}"
    if rules is None:
        rules = _file(Path(variant))
        name = f"{Path(variant).name}/{hashlib.sha256(rules.encode()).hexdigest()[:8]}"
    setting = Setting(chosen, rules, name, place, _tokens(context))
    try:
        setting.rules_for(TOOLS)
    except TemplateError as error:
        raise UsageError(f"--prompt-variant {variant}: {error}") from error
    return setting


def _file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--prompt-variant: no variant {str(path)!r} and no such file ({error}). "
            f"Known: {', '.join(VARIANTS)}; or give a template of your own"
        ) from error


def _tokens(text: str) -> int:
    number, kilo = text.lower().removesuffix("k"), text.lower().endswith("k")
    if not number.isascii() or not number.isdigit():
        raise UsageError(
            f"--context: {text!r} is no number of tokens. Give one such as 40k or 8192"
        )
    return int(number) * (1000 if kilo else 1)
