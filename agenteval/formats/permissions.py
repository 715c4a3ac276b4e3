"""An allow list in any form: our TOML, by name or path, or the config of another harness."""

from collections.abc import Sequence
from pathlib import Path

from agenteval.config.allowlists import load_policy
from agenteval.core.policy.policy import Policy
from agenteval.errors import UsageError


def load_any(given: str, *, roots: Sequence[Path], only_bash: bool = False) -> Policy:
    """The policy behind a name or a path; `HARNESS:PATH` says whose config it is.

    Without that, a .rules file is Codex's, a .md an OpenCode agent's, and a JSON file is of the
    harness whose name or keys it has. `only_bash` is as in `load_policy`. Raises UsageError when
    it is none of these.
    """
    harness, colon, path = given.partition(":")
    file = given.rpartition("/")[2]
    if not colon and ("." not in file or file.endswith(".toml")):
        return load_policy(given, roots=roots, only_bash=only_bash)
    from agenteval.dialects import registry  # noqa: PLC0415 -- start-up: ours needs none of them
    from agenteval.dialects.files import naming  # noqa: PLC0415 -- as above

    if colon and (reader := registry.reader(harness)):
        if not path:
            raise UsageError(f"{given}: names no file: expected one behind the colon")
        with naming(Path(path)):
            return reader(Path(path))
    if not registry.is_foreign(given):
        return load_policy(given, roots=roots, only_bash=only_bash)
    with naming(Path(given)):
        return registry.reader_of(Path(given))(Path(given))
