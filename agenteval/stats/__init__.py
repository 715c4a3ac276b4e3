"""Statistics by hand: `rates` first, then `comparison` of two models, and the gate in `promotion`.

`criteria` has what a gate limits. What needs numpy is imported when it is asked for: it takes half
a second that most commands save.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.stats import alpha_spending, permutation, planning, signature, simulation
else:
    __getattr__ = submodules(__name__)

__all__ = ["alpha_spending", "permutation", "planning", "signature", "simulation"]
