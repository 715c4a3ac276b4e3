"""The user's files, read and checked: begin with `scenarios`, and then `allowlists`.

`files` says what is wrong with a TOML file, `beneath` reads within a folder, `trust` finds projects
and decides whose word counts, and `models`, `gate` and `prompts` are agenteval.toml, gate.toml and
the arms. `proofread` renders a scenario's templates and asks its queries.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.config import gate, prompts, trust
else:
    __getattr__ = submodules(__name__)

__all__ = ["gate", "prompts", "trust"]
