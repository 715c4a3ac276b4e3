"""The user's files, read and checked: begin with `scenario_files`, and then `allowlists`.

`toml` says what is wrong with a file, `roots` finds named things, `trust` decides whose word
counts, and `models` and `gate` are agenteval.toml and gate.toml.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.config import gate, prompts, trust
else:
    __getattr__ = submodules(__name__)

__all__ = ["gate", "prompts", "trust"]
