"""The errors agenteval raises on purpose.

A model's mistake is never an exception: it is a measurement (`core.call.Finding`). What remains:

    AgentevalError
     +-- UsageError            the user's: one line that says what, where and how to mend it; exit 2
     +-- InfrastructureError   the machine's or the server's: the trial it struck becomes void

Anything else is a defect of ours and crashes loudly.
"""


class AgentevalError(Exception):
    """What every deliberate error of this package is."""


class UsageError(AgentevalError):
    """The user can mend this. The message is the whole line he reads: what, where, what to do."""


class InfrastructureError(AgentevalError):
    """Our machine or the model's server failed; no verdict about the model may follow from it."""
