"""Whether the statistics hold what they promise, on simulated models whose truth is known.

python tests/validate_statistics.py            prints the tables (minutes)
python tests/validate_statistics.py --write    and writes docs/validation.md
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import validation_claims as claims
import validation_lengths as lengths
import validation_parts as parts

from agenteval.stats.rates import Estimand

PAGE = parts.PROJECT / "docs" / "validation.md"

Section = Callable[[float], list[str]]  # its lines, from what multiplies the repetitions


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    marks = ["---", *["---:" for _ in heads[1:]]]
    return [f"| {' | '.join(row)} |" for row in (heads, marks, *rows)] + [""]


def _found(heads: Sequence[str], found: Sequence[parts.Found]) -> list[str]:
    rows = [
        (*one.what, f"{100 * one.share.value:.1f}", one.share.percent, "yes" if one.held else "NO")
        for one in found
    ]
    return _table((*heads, "%", "95 % interval", "within the aim"), rows)


HEAD = f"""\
# What the statistics hold

Written by `make validate`, from seed {parts.SEED}. All models are simulated, of known truth:
beta-binomial trials of 3 to 12 calls where nothing else is said, and what agenteval's own code says
of them. Each heading has the repetitions. Figures are percent of them, with the interval that so
many leave open; within the aim means that this interval reaches it.

"""


def coverage(scale: float) -> list[str]:
    many = _many(scale)
    return [
        f"## Coverage of 95 % intervals ({many:,} runs each)",
        "",
        "Aim: 93-97 % at an intraclass correlation (ICC) of 0 and 0.1, at least 90 % at 0.3.",
        "Widths are made for calls that resemble each other by 0.1: of 20 trials with eight errors",
        "or so, whose calls do not at all, they cover a little more than that.",
        "",
        *_found(("rate per 100", "trials", "ICC"), list(parts.coverage(many))),
    ]


def differences(scale: float) -> list[str]:
    many = _many(scale)
    return [
        f"## Coverage of 95 % intervals of differences ({many:,} pairs of runs each)",
        "",
        "Between 5.6 and 12 errors per 100 calls, with the same aims. In no pair of this page do p",
        "and interval contradict each other: that would have ended the program.",
        "",
        *_found(("of", "worlds", "trials", "ICC"), list(parts.differences(many))),
    ]


def uneven(scale: float) -> list[str]:
    some = _many(0.3 * scale)
    rows = [
        (
            one.lengths,
            f"{one.icc}",
            *(f"{100 * of.value:.1f} {of.percent}" for of in (one.rate, one.difference)),
            f"{100 * one.promoted.value:.1f} {one.promoted.percent}",
            "yes" if one.held else "NO",
            f"{one.width:.1f}",
        )
        for one in lengths.uneven(some)
    ]
    heads = (
        "calls of a trial",
        "ICC",
        "rate covered %",
        "difference covered %",
        "promoted %",
        "within the aim",
        "width of the rate's, points",
    )
    return [
        f"## Where few trials are very long ({some:,} runs, and pairs of runs, each)",
        "",
        "A rate of 12 errors per 100 calls, its difference to 5.6 in the same worlds, and a",
        "candidate at the margin of 3 points. Aim: at least 93 % covered, at most 6.5 % promoted.",
        "Where one trial has most of the calls a run says little, and its interval is that wide.",
        "",
        *_table(heads, rows),
    ]


def rejections(scale: float) -> list[str]:
    many = _many(4 * scale)  # between 4 and 6 % is told by no fewer
    return [
        f"## Tests of equal models at 5 % ({many:,} pairs of runs each)",
        "",
        "Aim: 4-6 % rejected. In the same worlds half of the ICC is shared by the scenario. At an",
        "ICC of 0.3 about four of 20 trials bear errors: of so few, ties and the small number of",
        "different exchanges leave less than 5 % to reject.",
        "",
        *_found(("test", "trials", "ICC"), list(parts.rejections(many))),
    ]


def scarce(scale: float) -> list[str]:
    many = _many(scale)
    rows = [
        (
            *one.what,
            f"{100 * one.share.value:.1f}",
            one.share.percent,
            f"{100 * enough:.0f}",
            f"{5 * enough:.1f}",
        )
        for one, enough in parts.scarce(many)
    ]
    heads = ("worlds", "trials", "ICC", "%", "95 % interval", "runs with five, %", "attainable, %")
    return [
        f"## The same where errors are scarce: 1 per 100 calls ({many:,} pairs of runs each)",
        "",
        "Four trials with errors are all on one side once in eight times, as tossed coins are. By",
        "half, as ties count, that is a p of 6.25 %, so none is below 5 %; of five it is 3.1 %. So",
        "what can be attained is 5 % of the runs with five trials with errors or, in the same",
        "worlds, with five worlds in which the two models differ.",
        "",
        *_table(heads, rows),
    ]


def promotions(scale: float) -> list[str]:
    many = _many(scale)
    heads = ("margin", "trials", "ICC of scenarios", "of trials")
    return [
        f"## The gate promotes a candidate at the margin ({many:,} pairs each)",
        "",
        "Aim: at most 6.5 %. The baseline makes 5.59 errors per 100 calls, in the same worlds.",
        "",
        *_found(heads, list(parts.promotions(many))),
    ]


def false_fails(scale: float) -> list[str]:
    many = _many(scale)
    return [
        f"## The gate fails a candidate that is the same ({many:,} pairs each)",
        "",
        "Aim: at most 0.5 %.",
        "",
        *_found(("trials", "ICC of scenarios", "of trials"), list(parts.false_fails(many))),
    ]


def early_looks(scale: float) -> list[str]:
    some = _many(0.3 * scale)
    rows = [
        (
            name,
            f"{100 * passed.value:.1f} {passed.percent}",
            f"{100 * failed.value:.1f} {failed.percent}",
            f"{trials:.0f}",
        )
        for name, passed, failed, trials in parts.early_looks(some)
    ]
    return [
        f"## Looking five times at 160 trials ({some:,} pairs each)",
        "",
        "ICC of scenarios 0.1, of trials 0.05. Aim: at most 6.5 % promoted at the margin.",
        "",
        *_table(("candidate", "promoted %", "failed %", "trials played of 160"), rows),
    ]


def asked_again(scale: float) -> list[str]:
    many = _many(scale)
    rows = [
        (name, what, *(f"{100 * one.value:.1f} {one.percent}" for one in shares))
        for name, what, *shares in parts.asked_again(many)
    ]
    return [
        f"## The gate asked at a quarter, a half and the end of a run ({many:,} pairs each)",
        "",
        "Aim: at most 6.5 % promoted at the margin of 3 points by a gate that remembers its looks.",
        "The last column is what a gate without a memory would promote.",
        "",
        *_table(("candidate", "run", "promoted %", "without a memory, %"), rows),
    ]


def estimands(scale: float) -> list[str]:
    some = _many(0.3 * scale)
    rows = [
        (
            f"{one.scenarios} x {one.trials}",
            one.about.label,
            f"{100 * one.covered.value:.1f} {one.covered.percent}",
            "yes" if one.covered.high >= 0.93 and one.covered.low <= 0.97 else "NO",
            f"{100 * one.by_t.value:.1f}",
            f"{one.width:.2f}",
            f"{one.times:.2f}",
        )
        for one in (
            *(few for few in claims.estimands(some, claims.FEW) if few.about is Estimand.THESE),
            *claims.estimands(some),
        )
    ]
    heads = (
        "scenarios x trials",
        "about",
        "covered %",
        "within the aim",
        "Student's t %",
        "width, points",
        "times the width of t",
    )
    return [
        f"## What a rate is about ({some:,} runs each)",
        "",
        "5.6 errors per 100 calls, ICC of scenarios 0.1, of trials 0.05, drawn by code of its own.",
        "Aim: 93-97 % for whichever is named, at most 1.1 times the width of Student's t over the",
        "same draws (stratified, or clustered by scenario) where that covers 93 % too. In runs of",
        "some ten trials t itself covers less, as few trials bear errors: ours is wider there.",
        "",
        *_table(heads, rows),
    ]


def interactions(scale: float) -> list[str]:
    some = _many(0.3 * scale)
    rows = [
        (layout, worlds, *(f"{100 * one.value:.1f} {one.percent}" for one in shares))
        for layout, worlds, *shares in claims.interactions(some)
    ]
    return [
        f"## Equal models of which each has its harder scenarios ({some:,} pairs each)",
        "",
        "Over all scenarios both make 5.6 errors per 100 calls; over those played they do differ",
        "(standard deviation of a model in a scenario 4.6 points). Aim: about scenarios like these",
        "4-6.5 % are said to differ. About these scenarios it is no error to say so.",
        "",
        *_table(("scenarios x trials", "worlds", "these, %", "like these, %"), rows),
    ]


def false_settled(scale: float) -> list[str]:
    some = _many(0.2 * scale)
    rows = [
        (
            str(models),
            str(trials),
            str(among),
            f"{100 * share.value:.1f}",
            share.percent,
            "yes" if share.low <= 0.05 else "NO",
        )
        for models, trials, share, among in claims.false_claims(some)
    ]
    heads = ("models", "trials of each", "claims, most", "%", "95 % interval", "within the aim")
    return [
        f"## Comparisons of identical models in which anything is called settled ({some:,} each)",
        "",
        "Aim: at most 5 %, whatever is claimed: number, kinds, five classes. A comparison without",
        "a p below twice what could be settled, by 999 exchanges, is taken to claim nothing.",
        "",
        *_table(heads, rows),
    ]


def lazy(scale: float) -> list[str]:
    some = _many(0.1 * scale)
    rows = [
        (end, *(f"{100 * one.value:.1f} {one.percent}" for one in shares))
        for end, *shares in claims.lazy_models(some)
    ]
    return [
        f"## Lazy models before the shipped gate ({some:,} pairs each)",
        "",
        "Candidates that make no error, and reach no goal: all trials (20 to 79) end in one way.",
        "The baseline reaches nine goals of ten. Aim: all fail.",
        "",
        *_table(("all trials", "passed %", "failed %"), rows),
    ]


def planned_power(scale: float) -> list[str]:
    many = _many(scale)
    heads = ("over", "ICC of scenarios", "of trials", "size")
    return [
        f"## The size that `agenteval plan` asks for ({many:,} pairs each)",
        "",
        "Aim: 80 % of candidates that are the same are promoted at a margin of 3 points; the size",
        "itself was found by 100 to 1,000 simulated pairs a step, to 5 %: 78-84 % is within the",
        "aim.",
        "",
        *_found(heads, list(parts.planned_power(many))),
    ]


def calls_needed(scale: float) -> list[str]:
    many = _many(scale)
    return [
        f"## The calls that `agenteval compare` asks for ({many:,} pairs each)",
        "",
        "Aim: 5.6 against 12 errors per 100 calls is settled in 80 % of pairs with as many calls,",
        "a rule of thumb that counts no trials: 76-84 % is within the aim.",
        "",
        *_found(("worlds", "ICC", "calls of each"), list(parts.calls_needed(many))),
    ]


def played(scale: float) -> list[str]:
    """Simulated models behind their real server, in a real sandbox."""
    trials = max(10, round(20 * scale))
    known = [figure for figure in parts.personas(trials) if figure[2]]
    inside = sum(rate.low <= value <= rate.high for _, _, value, rate in known)
    return [
        f"## Simulated models, played for real ({trials} trials of three scenarios each)",
        "",
        f"{inside} of {len(known)} known figures lie inside the reported 95 % interval, each of",
        "which misses one in twenty by design. Figures in percent; what a model never shows is",
        "left out of the table.",
        "",
        *_table(
            ("model", "figure", "known", "reported"),
            [
                (name, row.replace("|", "\\|"), f"{100 * value:.2f}", rate.per_100())
                for name, row, value, rate in known
            ],
        ),
    ]


SECTIONS: Mapping[str, Section] = {
    "coverage": coverage,
    "differences": differences,
    "uneven": uneven,
    "rejections": rejections,
    "scarce": scarce,
    "promotions": promotions,
    "false-fails": false_fails,
    "early-looks": early_looks,
    "asked-again": asked_again,
    "estimands": estimands,
    "interactions": interactions,
    "false-settled": false_settled,
    "lazy": lazy,
    "planned-power": planned_power,
    "calls-needed": calls_needed,
    "played": played,
}


def _many(scale: float) -> int:
    return round(2_000 * scale)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the repetitions")
    parser.add_argument("--write", action="store_true", help="write docs/validation.md")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="renew no other section")
    wanted = parser.parse_args()
    names = wanted.only or [*SECTIONS]
    sections = _written() if wanted.only else {}
    with ProcessPoolExecutor() as processes:
        for name, text in zip(
            names, processes.map(partial(_text, wanted.scale), names), strict=True
        ):
            sys.stdout.write(text)
            sys.stdout.flush()
            sections[name] = text
            if wanted.write and (wanted.only or name == names[-1]):
                PAGE.write_text(_page(sections), encoding="utf-8")


def _text(scale: float, name: str) -> str:
    return "\n".join([f"<!-- {name} -->", *SECTIONS[name](scale), ""])


def _written() -> dict[str, str]:
    """The sections of the page as it is, by name."""
    marked = re.split(r"^<!-- (\S+) -->\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {
        name: f"<!-- {name} -->\n{text.rstrip()}\n\n"
        for name, text in zip(marked[1::2], marked[2::2], strict=True)
    }


def _page(sections: Mapping[str, str]) -> str:
    found = [HEAD, *(sections[name] for name in SECTIONS if name in sections)]
    return "".join(found).rstrip() + "\n"


if __name__ == "__main__":
    main()
