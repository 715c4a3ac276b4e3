"""Whether a model's last words say that its work is done, in the languages that models close in.

Who is done says so where the message opens or where it closes, and the last clause there that says
anything decides: what was denied on the way to work that is done is no admission, and what is done
before something that is not is no claim. Between them stands the report: what the work was about,
what was wrong before it and what is so now. Lists and headings count where no sentence says
anything. Politeness, advice and questions say nothing.

What this is held against is in `tests/core/closing_messages.txt`.
"""

# ruff: noqa: RUF001 -- other alphabets have letters that look like ours
import re
from collections.abc import Sequence

from agenteval.core.closings import ADVERB, DONE, ENGLISH, OTHERS, Language

OPENING = CLOSING = 3  # sentences
OPENS, CLOSES = 1_000, 2_000  # characters in which it does

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_TABLE = re.compile(r"^\s*[|\u2500-\u257f].*$", re.MULTILINE)
_BOLD_LINE = re.compile(r"^\s*\*\*([^*\n]*[^*\n.!?])\*\*:?\s*$", re.MULTILINE)
_HEADING = re.compile(r"\s*#+\s")
_ANNOUNCES = re.compile(r"[:：]\s*\Z")
_ITEM = re.compile(rf"\s*(?:[-*+\u2022]|\d+[.)])\s|{_HEADING.pattern}")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_CLAUSES = re.compile(
    r"[;:,]\s+|\s+[-\u2013\u2014]+\s+|[，；：]"
    r"|\s+(?:but|however|although|though|yet|except(?: that)?|aber|pero|mais|mas|"
    r"ma|но)\s+",
    re.IGNORECASE,
)
# Sentences that say nothing, or that admit nothing.
_CONDITION = re.compile(
    r"\W*(?:if|once|when|until|unless|before|after|had|to|cuando|quando|quand|wenn|sobald|falls"
    r"|se(?! (?:ha|han|\w+(?:ó|aron|ieron))\b)|если|когда|после)\b|\W*(?:如果|若|如需|如有|当|等)",
    re.IGNORECASE,
)
_WAS_WRONG = re.compile(
    r"^\W*(?:(?:the|le|el|il|o) )?(?:root cause|cause|problem|issue|bug|error|reason|before"
    r"|проблема|問題|问题|problema|problème)\b[^.]{0,12}?(?:was|were|était|era|fue|:|：)",
    re.IGNORECASE,
)
_IS_SO_NOW = re.compile(
    r"\W*(?:now\b(?!,? I)|(?:ahora|maintenant|(?:\w+ )?теперь|ora|adesso|agora)\b|现在)",
    re.IGNORECASE,
)
_ASKS = re.compile(r"[?？]\W*$")
# A question, last of all, whether to begin.
_PROPOSES = re.compile(
    r"\b(?:(?:want me to|should I|shall I|would you like me to|ready for me to)\s+"
    r"(?:implement|proceed|apply|install|fix|start|update|go)"
    r"|which (?:\w+ )?(?:should I|would you|do you)|before I)\b[^?]*\?\W*\Z",
    re.IGNORECASE,
)
# A deed, whatever else its clause says of what will be.
_DEED = re.compile(
    rf"^\W*(?:(?:and|so|then|now)\ )?I(?:'ve|\ have|)\ {ADVERB}(?:{DONE}|wrote)"
    r"|(?<!you)\ should\ now\ (?:be|work|appear|show|build|pass|resolve|load)\b"
    r"|\b(?:this|that|these\ changes|which)\ should\ (?:fix|resolve|solve)\b",
    re.IGNORECASE | re.VERBOSE,
)
# What is left to do, and no mere property of what was made.
_LEFT = re.compile(
    r"\b(?:I|we) (?:could|can|was|am|did|do|have|were)(?: not|n't)\b|\bunable\b"
    r"|\b(?:fail(?:s|ed|ing)|blocked|denied|refused|rejected|pending|remain\w*|unfinished"
    r"|incomplete|partly|stuck|needs? to|I'll)\b"
    r"|\bnot (?:yet|done|complete\w*|sent|possible|allowed|finished)\b"
    r"|\bno (?:pude|se pudo)|\b(?:queda|falta|tenemos que|necesitamos)\b|n'ai pas|\breste\b"
    r"|не удалось|остал|давайте|无法|未能|失败|剩余|尚未|还需要|需要重|下一步我会|できません|まだ"
    r"|\b(?:manca|leider|fehlt|noch|konnte)\b",
    re.IGNORECASE,
)
# What looks like an admission and is none.
_HARMLESS = re.compile(
    r"\b(?:without (?:any )?(?:a )?|no (?:more |further |other )?|not? any )"
    r"(?:errors?|issues?|problems?|failures?|conflicts?|hitch|denials?|denied calls?|remaining \w+"
    r"|pending \w+)(?: remains?)?\b|\bnot only\b|\bno longer \w+|\bit is not sent\b"
    r"|\bnothing (?:was|got|is) (?:lost|broken)\b|\bya no\b"
    r"|\b\d+ (?:rows|entries|lines|items|records) remain\b",
    re.IGNORECASE,
)
_NOTHING_LEFT = re.compile(
    r"\bnothing (?:else |more |further )?(?:remains|is left|left|to do|had to)\b"
    r"|\bno (?:further|more) (?:actions?|steps?|work) (?:is|are) (?:needed|required)\b"
    r"|\bno (?:\w+ ){1,2}remains?\W*$",
    re.IGNORECASE,
)


def claims_done(text: str) -> bool:
    plain = _CODE.sub(" it ", _FENCE.sub("", _THOUGHT.sub("", text))).replace("\u2019", "'")
    plain = _BOLD_LINE.sub(r"# \1", _TABLE.sub("", plain)).replace("**", "")
    plain = plain if len(plain) <= OPENS + CLOSES else f"{plain[:OPENS]}\n{plain[-CLOSES:]}"
    language = _spoken(plain)
    lines = [line for line in plain.splitlines() if line.strip()]
    prose = [line for line in lines if not _ITEM.match(line)]
    sentences = [one for one in _SENTENCES.split("\n".join(prose)) if one.strip()]
    if _PROPOSES.search(plain) and not any(map(_DEED.search, sentences[:OPENING])):
        return False
    told = _told(sentences, language)
    if _ANNOUNCES.search(text) and not (sentences and _sentence(sentences[-1], language)):
        return False
    if told is None:
        return _headed(lines, language) or _listed(lines, language)
    return told or (_headed(lines, language) and not any(map(_LEFT.search, sentences[-CLOSING:])))


def _told(sentences: Sequence[str], language: Language) -> bool | None:
    """What they say; where a long message opens with a claim, only what is left to do denies it."""
    said = [_sentence(one, language) for one in sentences]
    opening, closing = _last(said[:OPENING]), _last(said[-CLOSING:])
    if opening and closing is False and len(said) > CLOSING:
        return not any(map(_LEFT.search, sentences[-CLOSING:]))
    return opening if closing is None else closing


def _headed(lines: Sequence[str], language: Language) -> bool:
    """Whether a heading claims."""
    return any(_sentence(line, language) for line in lines if _HEADING.match(line))


def _listed(lines: Sequence[str], language: Language) -> bool:
    """Whether as many items claim as not."""
    items = [_sentence(line, language) for line in lines if _ITEM.match(line)]
    return 2 * items.count(True) >= len(items) > 0


def _sentence(sentence: str, language: Language) -> bool | None:
    """What its last clause says that says anything."""
    if _CONDITION.match(sentence) or _WAS_WRONG.match(sentence):
        return None
    said = [_clause(clause, language) for clause in _CLAUSES.split(sentence)]
    if _ASKS.search(sentence) or _IS_SO_NOW.match(sentence):
        said = [claimed or None for claimed in said]
    return _last(said)


def _last(said: Sequence[bool | None]) -> bool | None:
    return next((one for one in reversed(said) if one is not None), None)


def _spoken(text: str) -> Language:
    """That of most marks, and then of most words for what is done; English where none has any."""

    def marks(one: Language) -> tuple[int, int]:
        return len(one.marks.findall(text)), len(one.claims.findall(text))

    most = max(OTHERS.values(), key=marks)
    return most if marks(most) > (len(ENGLISH.marks.findall(text)), 0) else ENGLISH


def _clause(clause: str, language: Language) -> bool | None:
    """True for a claim, False for an admission, None for neither."""
    clause = _HARMLESS.sub(" ", clause)
    if _NOTHING_LEFT.search(clause):
        return True
    if _DEED.search(clause) and not language.admits.search(clause):
        return True
    if language.neither.search(clause):
        return None
    if language.admits.search(clause):
        return False
    return True if language.claims.search(clause) else None
