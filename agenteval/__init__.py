"""agenteval: how reliably does a served model call its tools under an allow list."""

__version__ = "0.1.0"
