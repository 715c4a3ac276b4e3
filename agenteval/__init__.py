"""agenteval: how reliably does a served model call its tools under an allow list."""

try:
    from agenteval._version import __version__ as __version__
except ModuleNotFoundError:  # a checkout from which nothing was installed
    __version__ = "0.0.0"
