"""Mutants of the modules that decide, each against the tests that are its own (cosmic-ray).

`make mutants` tries all; SAMPLE=5 draws five of each module, by SEED. What survives is told with
the change that no test saw: a test is missing, or the change means nothing.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_and_test, mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkItem, WorkResult
from targets import ROOT, TARGETS

# `int | None` in a signature is no arithmetic, and a decorator taken away is seldom one's own code.
_MEANINGLESS = ("core/ReplaceBinaryOperator_BitOr_", "core/RemoveDecorator")
_PYTEST = "-m pytest -x -q -n 0 -p no:cacheprovider -p no:randomly --no-header"


@dataclass
class Score:
    """Of one module."""

    module: str
    tried: int = 0
    killed: int = 0


@contextmanager
def _copy() -> Iterator[Path]:
    """The working tree, where a mutant harms nobody."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    with tempfile.TemporaryDirectory(prefix="mutants") as folder:
        for name in listed.stdout.splitlines():
            if (ROOT / name).exists() or (ROOT / name).is_symlink():
                place = Path(folder) / name
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place, follow_symlinks=False)
        yield Path(folder)


def _mutants(folder: Path, module: str) -> list[WorkItem]:
    text = (folder / module).read_text("utf-8")
    with use_db(str(folder / "mutants.sqlite"), WorkDB.Mode.create) as database:
        init([folder / module], database, {})
        return [item for item in database.work_items if _means_something(item, text)]


def _means_something(item: WorkItem, text: str) -> bool:
    """Whether it is Python at all, and no matter of types or of memory alone.

    The `*` of a signature is taken for a product; `frozen`, `slots` and `cache` change no result.
    """
    (change,) = item.mutations
    line = text.splitlines()[change.start_pos[0] - 1].lstrip()
    product = "_Mul_" in change.operator_name and "*," in line
    if product or line.startswith("@") or change.operator_name.startswith(_MEANINGLESS):
        return False
    changed = mutate_code(text, get_operator(change.operator_name)(), change.occurrence)
    try:
        compile(changed, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _command(folder: Path, tests: Sequence[str]) -> str:
    """To be run in the copy, whose package goes before the installed one."""
    python = f"env PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={folder} {sys.executable}"
    return f"{python} {_PYTEST} {' '.join(tests)}"


def _patience(command: str) -> float:
    """Ten times what the tests take as things are; they have to pass then."""
    start = time.monotonic()
    ended = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f"mutants: without any mutant this fails:\n{command}\n{ended.stdout[-3000:]}")
    return 10 * (time.monotonic() - start)


def _try(folder: Path, module: str, sample: int, seed: int) -> Score:
    mutants, score = _mutants(folder, module), Score(module)
    command = _command(folder, TARGETS[module])
    patience = _patience(command)
    for mutant in _drawn(mutants, sample, random.Random(f"{seed} {module}")):
        result = mutate_and_test(mutant.mutations, command, patience)
        if result.test_outcome is TestOutcome.INCOMPETENT:
            continue
        score.tried += 1
        score.killed += result.is_killed
        if not result.is_killed:
            _say(_survivor(module, mutant, result))
    return score


def _drawn(mutants: list[WorkItem], sample: int, rng: random.Random) -> list[WorkItem]:
    """All, or one each of so many places: a sum has a dozen mutants, a condition two."""
    if not sample:
        return mutants
    mixed = rng.sample(mutants, len(mutants))
    places = {one.mutations[0].start_pos: one for one in mixed}
    chosen = sorted(places)
    return [places[at] for at in rng.sample(chosen, min(sample, len(chosen)))]


def _survivor(module: str, mutant: WorkItem, result: WorkResult) -> str:
    lines = [
        line
        for line in (result.diff or "").splitlines()
        if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]
    place = f"{module}:{mutant.mutations[0].start_pos[0]}"
    return "\n".join([f"survived  {place}", *(f"    {line}" for line in lines)])


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a program that reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="of each module; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.0, help="killed, of 100, or exit 1")
    parser.add_argument("modules", nargs="*", help="parts of their paths; default: all")
    given = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)  # of `x is 1` in a mutant
    chosen = [
        module
        for module in TARGETS
        if not given.modules or any(one in module for one in given.modules)
    ]
    scores = []
    with _copy() as folder, chdir(folder):
        for module in chosen:
            scores.append(_try(folder, module, given.sample, given.seed))
            _say(f"{scores[-1].killed:5} of {scores[-1].tried:5} killed  {module}")
    killed, tried = sum(one.killed for one in scores), sum(one.tried for one in scores)
    share = 100 * killed / max(tried, 1)
    _say(
        f"{killed:5} of {tried:5} killed, {share:.0f} % (sample {given.sample}, seed {given.seed})"
    )
    sys.exit(share < given.least)


if __name__ == "__main__":
    main()
