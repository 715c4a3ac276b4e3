"""The facts about a shell text: what explains why a call was denied."""

from agenteval.core.facts import ShellFacts
from agenteval.core.shell_draft import Gathered
from agenteval.core.shell_tree import Source
from agenteval.core.shell_walk import Walk


def read_facts(text: str) -> ShellFacts:
    """Everything the taxonomy may ask about a text, read by tree-sitter-bash. Never raises."""
    return _facts(Source(text))


def _facts(source: Source) -> ShellFacts:
    found = Gathered()
    Walk(source, found).run()
    return ShellFacts(
        text=source.text,
        commands=[draft.freeze() for draft in found.drafts if not draft.is_empty],
        pipelines=[tuple(d.freeze() for d in drafts) for drafts in found.pipelines],
        chains=found.chains,
        redirects=found.redirects,
        heredocs=found.heredocs,
        substitutions=found.substitutions,
        assignments=found.assignments,
        background=found.background,
        subshells=found.subshells,
        control=found.control,
        errors=found.errors,
    )
