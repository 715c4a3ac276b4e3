"""What an allowed text runs: the words that were read, or bash where it still has work to do."""

from agenteval.core.call import BashRun, new
from agenteval.core.shell.gate import Simple
from agenteval.core.shell.leaves import Leaves

BASH = ("bash", "--norc", "--noprofile", "-c")
# Bash runs these itself; as programs they are missing or mean something else.
# fmt: off
BUILTINS = frozenset({
    ".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command",
    "compgen", "complete", "compopt", "continue", "declare", "dirs", "disown", "echo", "enable",
    "eval", "exec", "exit", "export", "false", "fc", "fg", "getopts", "hash", "help", "history",
    "jobs", "kill", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "pwd", "read",
    "readarray", "readonly", "return", "set", "shift", "shopt", "source", "suspend", "test",
    "times", "trap", "true", "type", "typeset", "ulimit", "umask", "unalias", "unset", "wait",
})
# fmt: on


def run_of_simple(simple: Simple) -> BashRun:
    """Its own words, when bash would add nothing to them.

    Skipping bash saves a process, and leaves nothing that could read the text another way.
    """
    text, argv, dynamic, _ = simple
    if dynamic or argv[0] in BUILTINS:
        return new(BashRun, (text, (*BASH, text), (argv,)))
    return new(BashRun, (text, argv, (argv,)))


def run_of_text(text: str, split: Leaves | None) -> BashRun:
    """Bash with the text; `split` is what was read in it."""
    commands = tuple(leaf.argv for leaf in split.leaves) if split else ()
    return BashRun(text, (*BASH, text), commands)
