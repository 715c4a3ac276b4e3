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
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkItem
from survivors import explanations
from targets import ROOT, TARGETS
from warm import Patience, first_run, prepare, run

# `int | None` in a signature is no arithmetic, and a decorator taken away is seldom one's own code.
# `is` stands before None and the members of enums alone, which equal nothing but themselves.
_MEANINGLESS = (
    "core/ReplaceBinaryOperator_BitOr_",
    "core/RemoveDecorator",
    "core/ReplaceComparisonOperator_Is_Eq",
    "core/ReplaceComparisonOperator_IsNot_NotEq",
)
_OF_TYPES = ("@", "if TYPE_CHECKING:")


@dataclass
class Score:
    """Of one module."""

    module: str
    tried: int = 0
    killed: int = 0
    explained: int = 0

    @property
    def share(self) -> float:
        return 100 * self.killed / max(self.tried, 1)

    @property
    def open(self) -> int:
        """What neither a test nor a reason has settled."""
        return self.tried - self.killed - self.explained

    def add(self, other: "Score") -> None:
        self.tried += other.tried
        self.killed += other.killed
        self.explained += other.explained

    def told(self) -> str:
        return (
            f"{self.killed:5} of {self.tried:5} killed, {self.share:.0f} %; "
            f"{self.explained} explained, {self.open} survived  {self.module}"
        )


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

    The `*` of a signature is taken for a product; `frozen`, `slots` and `cache` change no result,
    and neither does what is imported for types alone.
    """
    (change,) = item.mutations
    line = text.splitlines()[change.start_pos[0] - 1].lstrip()
    product = "_Mul_" in change.operator_name and "*," in line
    if product or line.startswith(_OF_TYPES) or change.operator_name.startswith(_MEANINGLESS):
        return False
    changed = mutate_code(text, get_operator(change.operator_name)(), change.occurrence)
    try:
        compile(changed, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _try(folder: Path, module: str, sample: int, seed: int) -> Score:
    mutants, score = _mutants(folder, module), Score(module)
    tests = TARGETS[module]
    first = first_run(folder, tests)
    if first.status:
        sys.exit(f"mutants: without any mutant this fails:\n{' '.join(tests)}\n{first.said}")
    patience = Patience(10 + int(5 * first.took), 60 + int(50 * first.took))
    known = [one for one in explanations() if one.module == module]
    for mutant in _drawn(mutants, sample, random.Random(f"{seed} {module}")):
        (change,) = mutant.mutations
        operator = get_operator(change.operator_name)()
        with use_mutation(folder / module, operator, change.occurrence) as texts:
            survived = run(folder, tests, patience).status == 0
        score.tried += 1
        score.killed += not survived
        if survived:
            difference = _difference(*texts)
            told = any(one.tells(difference) for one in known)
            score.explained += told
            _say(f"{'explained' if told else 'survived '} {module}:{change.start_pos[0]}")
            _say("\n".join(f"    {line}" for line in difference))
    return score


def _drawn(mutants: list[WorkItem], sample: int, rng: random.Random) -> list[WorkItem]:
    """All, or one each of so many places: a sum has a dozen mutants, a condition two."""
    if not sample:
        return mutants
    mixed = rng.sample(mutants, len(mutants))
    places = {one.mutations[0].start_pos: one for one in mixed}
    chosen = sorted(places)
    return [places[at] for at in rng.sample(chosen, min(sample, len(chosen)))]


def _difference(was: str, becomes: str | None) -> list[str]:
    lines = list(unified_diff(was.splitlines(), (becomes or "").splitlines(), n=0, lineterm=""))
    return [line for line in lines[2:] if line[0] in "+-"]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a program that reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="of each module; 0 for all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--least",
        type=float,
        default=0.0,
        help="killed, of 100, and no other unexplained, or exit 1",
    )
    parser.add_argument("modules", nargs="*", help="parts of their paths; default: all")
    given = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)  # of `x is 1` in a mutant
    chosen = [
        module
        for module in TARGETS
        if not given.modules or any(one in module for one in given.modules)
    ]
    total = Score("all")
    with _copy() as folder, chdir(folder):
        prepare(folder)
        for module in chosen:
            total.add(score := _try(folder, module, given.sample, given.seed))
            _say(score.told())
    _say(f"{total.told()} (sample {given.sample}, seed {given.seed})")
    sys.exit(total.share < given.least or total.open > 0 < given.least)


if __name__ == "__main__":
    main()
