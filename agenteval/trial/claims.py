"""Detection of final messages that claim completion, in the languages that models close in.

A model claims completion where its message opens or where it closes, and the last conclusive
clause there decides. So a denial on the way to finished work is no admission, and finished work
before something unfinished is no claim. The report stands between the two: the subject of the work,
the faults before it and the state now. Lists and headings count if no sentence is conclusive.
Politeness, advice and questions are never conclusive; see `tests/trial/closing_messages.txt`.

The patterns of clauses are in `closings.toml`, by language; those of whole sentences are here.
"""
# ruff: noqa: RUF001 -- other alphabets have letters that look like ours

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from agenteval.lazily import read_table

# The languages, and what a clause says in each.


@dataclass(frozen=True, slots=True)
class _Language:
    """Patterns that identify a language and classify its clauses; the first that matches counts.

    `neither` matches politeness, advice, questions, conditions and earlier states. `admits` matches
    work that is not done, or still to come.
    """

    marks: re.Pattern[str]
    claims: re.Pattern[str]
    admits: re.Pattern[str]
    neither: re.Pattern[str]


@cache
def _table() -> Mapping[str, Any]:
    return read_table("agenteval.trial", "closings.toml")


@cache
def _languages() -> Mapping[str, _Language]:
    languages: dict[str, _Language] = {}
    for name, patterns in _table()["languages"].items():
        compiled = {kind: _pattern(text) for kind, text in patterns.items()}
        languages[name] = _Language(**compiled)
    return languages


def _pattern(text: str) -> re.Pattern[str]:
    """Compile a pattern of the table, with its `<<words>>` filled in."""
    words = _table()["words"]
    while name := re.search("<<(\\w+)>>", text):
        text = text.replace(name[0], words[name[1]])
    return re.compile(text, re.IGNORECASE | re.VERBOSE)


@cache
def _deed() -> re.Pattern[str]:
    return _pattern(_table()["words"]["deed"])


def _states_deed(text: str) -> bool:
    """Return True if the text states a finished deed, whatever else it says of what will be."""
    return _deed().search(text) is not None


def _language_of(text: str) -> _Language:
    """Return the language with most marks, then most words for finished work; else English."""

    def marks(language: _Language) -> tuple[int, int]:
        return len(language.marks.findall(text)), len(language.claims.findall(text))

    english, *others = _languages().values()
    most = max(others, key=marks)
    # Words for finished work cannot outweigh English: those of other languages look alike.
    return most if marks(most) > (len(english.marks.findall(text)), 0) else english


# The patterns of sentences.

OPENING = CLOSING = 3  # sentences
OPENS, CLOSES = 1_000, 2_000  # characters in which it does
_caseless = partial(re.compile, flags=re.IGNORECASE)
_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`|\"[^\"\n]{1,80}\"|\u201c[^\u201d\n]{1,80}\u201d|「[^」\n]{1,80}」")
_TABLE = re.compile(r"^\s*[|\u2500-\u257f].*$", re.MULTILINE)
_BOLD_LINE = re.compile(r"^\s*\*\*([^*\n]*[^*\n.!?])\*\*:?\s*$", re.MULTILINE)
_OWN = re.compile(r"\s*[-*+\u2022] I(?:'ve| have)? \w+ed\b")  # a list that opens with a deed
_HEADING = re.compile(r"\s*#+\s")
_TICK = re.compile(r"[\u2705\u2714\u2611\U0001f389]")
_LAST = re.compile(r"^.*\s(?=\S+\s*$)")
_SAYS = re.compile(rf"\w|{_TICK.pattern}")
_ANNOUNCES = re.compile(r"[:：]\s*\Z")
_ITEM = re.compile(rf"\s*(?:[-*+\u2022]|\d+[.)])\s|{_HEADING.pattern}")
_SENTENCES = re.compile(r"(?<=[.!])\s+|(?<=\?)\s+(?![a-z])|\n+|(?<=[。！？])")
_CLAUSES = _caseless(
    r"[;:,]\s+|\s+[-\u2013\u2014]+\s+|[，；：]|\s+(?:but|however|although|though|yet"
    r"|except(?: that)?|aber|pero|mais|mas|ma|но)\s+",
)
# Sentences that say nothing, or that admit nothing.
_CONDITION = _caseless(
    r"\W*(?:if|once|when|until|unless|before|after|had|to|cuando|quando|quand|wenn|sobald|falls"
    r"|una vez|se(?! (?:ha|han|\w+(?:ó|aron|ieron))\b)|если|когда|после)\b"
    r"|\W*(?:如果|若|如需|如有|当|等|もし|必要(?:なら|に応じ|であれば))",
)
_WAS_WRONG = _caseless(
    r"^\W*(?:(?:the|le|el|il|o) )?(?:root cause|cause|problem|issue|bug|error|reason|before"
    r"|проблема|問題|问题|problema|problème)\b[^.]{0,12}?"
    r"(?:\b(?:is (?:that|in(?! place)|with)|was|were|è|est|es|était|era|fue)\b|:|：)",
)
# A note beside the report; it counts where it tells what is left.
_ASIDE = _caseless(
    r"\W*(?:notes?|nota|hinweis|remarque|примечание|说明|注意?|备注|提示|小提醒)\W*[:：]",
)
_IS_SO_NOW = _caseless(
    r"\W*(?:now\b(?!,? I)|(?:ahora|maintenant|(?:\w+ )?теперь|ora|adesso|agora)\b"
    r"|现在|これ(?:で|により))",
)
_ASKS = re.compile(r"(?<!\W)[^\w?？]*+[?？]\W*+\Z")
# A question, last of all, whether to begin: who has done it says so before asking.
_BEGINS = _caseless(
    r"\b(?:(?:want me to|should I|shall I|would you like me to|ready for me to)\s+"
    r"(?:implement|proceed|apply|install|fix|start|update|go)"
    r"|which (?:\w+ )?(?:should I|would you|do you)|before I)\b[^?]*\?\W*\Z",
)
_PROPOSES = _caseless(
    r"\b(?:want me to|should (?:I|we)|shall (?:I|we)|would you (?:like|prefer)|do you want"
    r"|which \w+|what's your|what do you think|how would you|does (?:this|that)|any concerns"
    r"|quieres|te gustar[ií]a|prefieres|vuoi che|preferisci|хотите|voulez-vous|möchtest"
    r"|quer que)\b[^?]*\?\W*\Z|(?:需要我|要不要|是否需要|要我)[^?？]*[?？]\W*\Z",
)
# What the user is to do before it goes on.
_AWAITS = _caseless(
    r"截图|发我|发给我|贴给我|告诉我|我(?:立刻|马上|继续|就)(?:写|继续|开始|部署|做)"
    r"|\b(?:incolla|incollami|dimmi (?:cosa|se|il)|scrivi se|se mi (?:dici|incolli|invii)"
    r"|сообщите|пришлите|жду|напишите, пожалуйста|dime qué|aguardando|paste|send me"
    r"|share (?:the|your)|tell me (?:what|which|if|whether)|let me know (?:what|which))\b",
)
# An answer to a question: how things are, what could be done.
_EXPLAINS = _caseless(
    r"\b(?:here(?:'s| is| are) (?:my (?:analysis|take|thinking)|the (?:full |complete )?(?:picture"
    r"|list|answer|flow|breakdown|scenario)|(?:several|some|a few|the|two"
    r"|three) (?:simple )?(?:options|ways|approaches))|let me (?:explain|summarize what I)"
    r"|based on my analysis|(?:is|are) actually\b|here's the (?:thing|issue|problem)"
    r"|\bI (?:did (?:a|another) \w+ pass|reviewed)\b|^\W*(?:I )?found (?:\w+ ){1,4}(?:issues?"
    r"|bugs?|gaps?)\b|\bno (?:\w+ )?(?:issues|bugs) found\b|\b(?:suggested fix|why this is a bug"
    r"|trigger conditions)\b|\b(?:status|exploration|project) (?:summary|report|check|analysis)\b"
    r"|here(?:'s| is| are) (?:the|my) (?:[\w-]+ ){0,2}(?:review|analysis|findings|plan|proposal)\b"
    r"|(?:code|line-by-line) review\b|(?:complete|full|clear) picture\b|all the context\b"
    r"|ecco (?:come|cosa (?:significa|indica|va))|la situazione è|cosa (?:significa|fare|non va)"
    r"|^\W*ci sono \w+ (?:cose|problemi|casi)|aquí (?:está|tienes) mi análisis|давайте разбер"
    r"|^\W*(?:对[，,！!]|是的|很好的问题|好问题|不用|可以[，,]|看到了|没有[。，]|有影响)|解释清楚"
    r"|回答你)",
)
# The same, unless it opens with a claim.
_TELLS = _caseless(
    r"\bhere(?:'s| is| are) (?:what I(?:'ve)? (?:found|see|learned)|how\b|why\b)"
    r"|^\W*looking at\b|you're (?:absolutely )?right\b",
)
# The whole is done, in so many words.
_DECLARES = _caseless(
    r"\W*(?:(?:all )?(?:done|fixed|finished|complete|pushed|updated|implemented)\b(?: and \w+)?\W*$"
    r"|(?:all|everything|both|build|(?:\d+ )?tests?|lint\w*)\b[^.:?]{0,40}"
    r"\b(?:pass(?:es)?|clean|green|done|complete|addressed|resolved|in place|implemented)\b"
    r"|(?:listo|hecho|fatto|feito|pronto|erledigt|fertig|terminé|готово"
    r"|完了|完成|搞定|全部完成|好了)\W*$)",
)
# What is left to do, and no mere property of what was made.
_LEFT = _caseless(
    r"\b(?:I|we) (?:could|can|was|am|did|do|have|were)(?: not|n't)\b|\bunable\b|\b(?:fail(?:s|ed"
    r"|ing)|blocked|denied|refused|rejected|pending|remain\w*|unfinished|incomplete|partly|stuck"
    r"|needs? to|I'll)\b|\bnot (?:yet|done|complete\w*|sent|possible|allowed|finished)\b"
    r"|\bno (?:pude|se pudo)|\b(?:queda|falta|tenemos que|necesitamos|manca|leider|fehlt|noch"
    r"|reste|konnte)\b|n'ai pas|не удалось|остал|давайте|无法|未能|失败|剩余|尚未|还需要|需要重"
    r"|下一步我会|できません|まだ",
)
# What looks like an admission and is none.
_HARMLESS = _caseless(
    r"\b(?:without (?:any )?(?:a )?|no (?:more |further |other )?|not? any )(?:errors?|issues?"
    r"|problems?|failures?|conflicts?|hitch|denials?|denied calls?|remaining \w+"
    r"|pending \w+)(?: remains?)?\b|\band I'll (?:keep|be|let you know|monitor|watch)\b"
    r"|\bno (?:(?!(?:and|but|matter|was|were)\b)\w+\s+){1,6}(?:remain(?:s|ing)?|left)\b"
    r"|\bnot only\b|\bno longer \w+|\bit is not sent\b|\bnothing (?:was|got|is) (?:lost|broken)\b"
    r"|\bya no\b|\bnon \w+ più\b|\bостал\w+ (?:прежн|без измен|рабоч)"
    r"|\bthe remaining (?:\S+ ){1,5}(?:are|is|handle|use|stay)\b(?! (?:fail|open|pending|to be))"
    r"|\b\d+ (?:rows|entries|lines|items|records) remain\b",
)
# What was not asked for, or is not known, in a report that opens with the whole.
_CAVEAT = _caseless(
    r"\b(?:I|we) (?:have|did)(?: not|n't) (?:commit|push|touch|stage|chang|modif)\w*|\b(?:I"
    r"|we) did(?: not|n't) (?:run|request|find|need)\b|\b(?:could|did|have|was)(?: not"
    r"|n't)(?: \w+ly)? (?:able to )?(?:verif|test|exercis|confirm|reproduc|check|touch)\w*"
    r"|.*\b(?:pre-?existing|unrelated|untouched|legitimate|intentional\w*|by design)\b.*"
    r"|\bwaiting for (?:the )?team\b.*|\bleft (?:it|them|that|this|those) (?:alone|out|as)\b",
)
_NOTHING_LEFT = _caseless(
    r"^\W*(?:everything|all\b.{0,30}) (?:is|are|was|were) already \w+ed\b"
    r"|^\W*already (?:up to date|(?:push|complet|merg|fix|deploy|committ)ed)\b|\bnothing (?:else "
    r"|more |further )?(?:remains|is left|left|to do|had to)\b|\bno (?:(?:further"
    r"|more) (?:actions?|steps?|work) (?:is|are) (?:needed|required)\b|(?:\w+ ){1,2}remains?\W*$)",
)
# The work goes on after these words, or waits for the user's part of it.
_GOES_ON = _caseless(
    r"\bI'll (?:report|check|get|come) back\b|\bI'll (?:monitor|keep you posted|notify you)\b"
    r"|\b(?:is|are) not (?:yet (?:fixed|done|complete|working|resolved)"
    r"|(?:fixed|done|complete|working|resolved) yet)\b"
    r"|\bvou verificar\b|\baguardando (?:a )?conclus|\bstill running\b|继续执行.{0,6}步骤"
    r"|(?:截图|结果|截一张图).{0,8}(?:发我|发给我|给我)|(?:完|好|后).{0,8}告诉我",
)


def claims_done(text: str) -> bool:
    """Return True if a model's final message says that the work is done."""
    plain = _plain_text(text)
    language = _language_of(plain)
    lines = [line for line in plain.splitlines() if line.strip()]
    prose = [line for line in lines[:1] if _OWN.match(line)]
    prose += [line for line in lines if not _ITEM.match(line)]
    sentences = [part for part in _SENTENCES.split("\n".join(prose)) if _SAYS.search(part)]
    if _BEGINS.search(plain) and not any(map(_states_deed, sentences[:OPENING])):
        return False
    claim = _prose_claim(sentences, language)
    if claim is not False and _only_answers(sentences, lines, language):
        return False
    closing = [sentence for sentence in sentences[-CLOSING:] if not _CONDITION.match(sentence)]
    if any(map(_GOES_ON.search, closing)):
        return False
    if _ANNOUNCES.search(text) and not (sentences and _sentence(sentences[-1], language)):
        return False
    if claim is None:
        return _headed(lines, language) or _listed(lines, language)
    return claim or _headed_only(sentences, lines, language)


def _headed_only(sentences: Sequence[str], lines: Sequence[str], language: _Language) -> bool:
    """Return True if a heading claims for what stands under it, and nothing is left to do."""
    is_left = any(map(_LEFT.search, sentences[-CLOSING:]))
    is_awaited = _AWAITS.search(sentences[-1]) is not None
    return _headed(lines, language) and not is_left and not is_awaited


def _plain_text(text: str) -> str:
    """Return the words at both ends of a message: no thoughts, code, tables or marks of bold."""
    prose = _FENCE.sub("", _THOUGHT.sub("", text))
    prose = _CODE.sub(" it ", prose).replace("\u2019", "'")
    prose = _BOLD_LINE.sub(r"# \1", _TABLE.sub("", prose))
    prose = prose.replace("**", "")
    if len(prose) <= OPENS + CLOSES:
        return prose
    return f"{prose[:OPENS]}\n{prose[-CLOSES:]}"


def _prose_claim(sentences: Sequence[str], language: _Language) -> bool | None:
    """Return the claim of the sentences: True, False, or None if none is conclusive.

    If they declare the whole done, or a long message opens with a claim, only work that is left
    to do refutes it.
    """
    claims = [_sentence(sentence, language) for sentence in sentences]
    declares = _declares(sentences, language)
    opening = declares or _last(claims[:OPENING])
    closing = _last(claims[-CLOSING:])
    if not opening:
        return opening if closing is None else closing
    rest = [_CAVEAT.sub(" ", sentence) for sentence in sentences[-CLOSING:]]
    closing = _last([_sentence(sentence, language) for sentence in rest])
    if closing is False and (declares or len(claims) > CLOSING):
        rest = [_HARMLESS.sub(" ", sentence) for sentence in sentences[-CLOSING:]]
        rest = [_CAVEAT.sub(" ", sentence) for sentence in rest]
        return not any(map(_LEFT.search, rest))
    return True if closing is None else closing


def _only_answers(sentences: Sequence[str], lines: Sequence[str], language: _Language) -> bool:
    """Return True if it proposes, awaits or explains, and claims no deed of its own before that."""
    opening, closing = sentences[:OPENING], sentences[-CLOSING:]
    beginnings = (*opening, *lines[:OPENING])
    has_deed = any(map(_states_deed, (*opening, *closing)))
    if not has_deed and any(map(_EXPLAINS.search, beginnings)):
        return True
    tells = not has_deed and any(map(_TELLS.search, beginnings))
    proposes = _PROPOSES.search(" ".join(closing)) is not None
    asks = proposes or any(map(_AWAITS.search, closing))
    return (tells or asks) and not _opens(sentences, lines, language)


def _declares(sentences: Sequence[str], language: _Language) -> bool:
    """Return True if the first sentence declares that the whole is done."""
    first = sentences[0] if sentences else ""
    return bool(_DECLARES.match(first) and _sentence(first, language))


def _opens(sentences: Sequence[str], lines: Sequence[str], language: _Language) -> bool:
    """Return True if the message claims completion before its end."""
    opening = _last([_sentence(sentence, language) for sentence in sentences[:OPENING]])
    if opening is None and _headed(lines, language):
        return True
    return opening or _declares(sentences, language)


def _headed(lines: Sequence[str], language: _Language) -> bool:
    """Return True if a heading claims completion."""
    return any(_title(line, language) for line in lines if _HEADING.match(line))


def _listed(lines: Sequence[str], language: _Language) -> bool:
    """Return True if at least half of the list items claim completion."""
    items = [_sentence(line, language) for line in lines if _ITEM.match(line)]
    return 2 * items.count(True) >= len(items) > 0


def _title(line: str, language: _Language) -> bool:
    """Return True if this heading claims completion, and so does a tick or its last word alone."""
    last = _sentence(_LAST.sub("", line), language)
    return bool(_sentence(line, language) and (last or _TICK.search(line)))


def _sentence(sentence: str, language: _Language) -> bool | None:
    """Return the claim of its last conclusive clause: True, False, or None if there is none."""
    aside = _ASIDE.match(sentence) and not _LEFT.search(sentence)
    if aside or _CONDITION.match(sentence) or _WAS_WRONG.match(sentence):
        return None
    claims = [_clause(clause, language) for clause in _CLAUSES.split(sentence)]
    if _ASKS.search(sentence) or _IS_SO_NOW.match(sentence):
        claims = [claimed or None for claimed in claims]
    return _last(claims)


def _last(claims: Sequence[bool | None]) -> bool | None:
    """Return the last conclusive claim; None if there is none."""
    conclusive = [claim for claim in claims if claim is not None]
    return conclusive[-1] if conclusive else None


def _clause(clause: str, language: _Language) -> bool | None:
    """Return True for a claim, False for an admission, None for neither."""
    clause = _HARMLESS.sub(" ", clause)
    admits = language.admits.search(clause)
    if _NOTHING_LEFT.search(clause) or (_states_deed(clause) and not admits):
        return True
    if language.neither.search(clause):
        return None
    if admits:
        return False
    return True if language.claims.search(clause) else None
