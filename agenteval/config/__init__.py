"""The user's files, read and checked: begin with `scenario_files`, and then `allowlists`.

`toml` says what is wrong with a file, `roots` finds named things, `trust` decides whose word
counts, and `models` and `gate_rules` are agenteval.toml and gate.toml.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.config import gate_rules, trust
else:  # what shows runs reads a gate.toml where the user has one, and is quicker without
    __getattr__ = submodules(__name__)

__all__ = ["gate_rules", "trust"]
