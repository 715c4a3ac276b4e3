"""`agenteval view`: a store's runs, calls and transcripts as web pages; `pages` names each page."""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.viewer import application
else:
    __getattr__ = submodules(__name__)

__all__ = ["application"]
