"""Statistics without scipy: `rates` first, then `comparison` of two models, and `promotion`.

`promotion` is the gate, and `criteria` has what a gate limits. Modules that need numpy are imported
on first use: that takes half a second, which most commands save.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.stats import alpha_spending, permutation, planning, signature, simulation
else:
    __getattr__ = submodules(__name__)

__all__ = ["alpha_spending", "permutation", "planning", "signature", "simulation"]
