"""Real harnesses: the program itself plays, and what it asks its model goes through our proxy.

Begin with recipes.py, which sets up the harnesses of programs.toml. install.py gets them.
forwarder.py runs beside the program in the sandbox, and lets nobody else ask. http.py is one
request and its answer; translation.py takes them to a served model and back, with wires.py for what
is not passed on as it is. dialogue.py follows the conversation, play.py has the loop of one trial
and our end of its socket. capture.py plays the model for a user's own program (capture.toml), and
makes an arm of what that asked.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.harness import capture
else:
    __getattr__ = submodules(__name__)

__all__ = ["capture"]
