"""What the user wrote: models, scenarios and allow lists, read and checked."""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.config import gate_rules
else:  # what shows runs reads a gate.toml where the user has one, and is quicker without
    __getattr__ = submodules(__name__)

__all__ = ["gate_rules"]
