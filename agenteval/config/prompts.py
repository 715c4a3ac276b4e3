"""The rules that stand in a prompt: a variant of ours by name, or a file of the user's."""

import hashlib
from pathlib import Path

from agenteval.config.arms import arm_named
from agenteval.config.beneath import read
from agenteval.core.prompt.setting import USUAL, VARIANTS, VERSION, Place, Setting
from agenteval.errors import UsageError
from agenteval.sandbox.maker import TemplateError, rules_for

TOOLS = ("bash", "read", "write")
LONGEST = 10_000_000  # tokens of context; no model that is served takes more
MOST = 25  # of 100 earlier calls that can be denied ones: those who play them slip no oftener


def load_setting(arm: str, variant: str | None, place: Place, context: str) -> Setting:
    """Without a `variant` the arm's own; `context` is a number of tokens, such as 40k or 40k:20.

    Raises UsageError for what is unknown or no number, and for a template with a fault.
    """
    chosen = arm_named(arm)
    variant = variant or chosen.rules
    rules = VARIANTS.get(variant)
    name = f"{variant}/{VERSION}"
    if rules is None:
        rules = _file(Path(variant))
        name = f"{Path(variant).name}/{hashlib.sha256(rules.encode()).hexdigest()[:8]}"
    tokens, denied = _length(context)
    setting = Setting(chosen, rules, name, place, tokens, denied=denied)
    try:
        rules_for(setting, TOOLS)
    except TemplateError as error:
        raise UsageError(f"--prompt-variant {variant}: {error}") from error
    return setting


def _file(path: Path) -> str:
    try:
        return read(path).decode("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"--prompt-variant: no variant {str(path)!r} and no such file ({error}). "
            f"Known: {', '.join(VARIANTS)}; or give a template of your own"
        ) from error


def _length(text: str) -> tuple[int, int]:
    """Return the number of tokens, and how many of 100 calls in them were denied."""
    tokens, with_share, denied = text.lower().partition(":")
    number, kilo = tokens.removesuffix("k"), tokens.endswith("k")
    if not _whole(number):
        raise UsageError(
            f"--context: {text!r} is no number of tokens. Give one such as 40k or 8192"
        )
    share = int(denied) if _whole(denied) else USUAL
    if with_share and (not _whole(denied) or share > MOST):
        raise UsageError(
            f"--context {text}: behind : stands how many of 100 calls before the task were denied, "
            f"from 0 to {MOST}, as in 40k:20"
        )
    digits = number.lstrip("0") or "0"  # Python reads no number of thousands of digits
    length = int(digits) * (1000 if kilo else 1) if len(digits) < 12 else LONGEST + 1
    if length > LONGEST:
        raise UsageError(f"--context {text[:40]}: more than any model takes; at most {LONGEST}")
    return length, share


def _whole(text: str) -> bool:
    return text.isascii() and text.isdigit()
