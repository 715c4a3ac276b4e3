"""Real harnesses: the program itself plays, and what it asks its model goes through our proxy.

Begin with recipes.py, which says what a harness is and how each is set up. install.py gets them.
forwarder.py runs beside the program in the sandbox, and lets nobody else ask; trial_socket.py is
its other end. http_server.py is one request and its answer; translation.py takes them to a served
model and back, with anthropic_wire.py and openai_responses.py for what is not passed on as it is.
dialogue.py follows the conversation, play.py is the loop of one trial. capture.py plays the model
for a user's own program, and recording.py makes an arm of what that asked.
"""

from agenteval.lazily import submodules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agenteval.harness import capture
else:
    __getattr__ = submodules(__name__)

__all__ = ["capture"]
