"""Whether a model's last words say that its work is done, in the languages that models close in.

The last clause that says anything about it decides: what was denied on the way to work that is done
is no admission, and what is done before something that is not is no claim. Politeness, advice and
questions say nothing. What this is held against is in `tests/core/closing_messages.txt`.
"""

# ruff: noqa: RUF001 -- other alphabets have letters that look like ours
import re
from collections.abc import Mapping
from dataclasses import dataclass

READ = 2_000  # characters from the end: whoever is done says so there

_THOUGHT = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL)
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。！？])")
_CONDITION = re.compile(r"\W*(?:if|once|when|until|unless|before|had|to)\b", re.IGNORECASE)
_CLAUSES = re.compile(
    r"[;:,]\s+|\s+[-\u2013\u2014]+\s+|[，；：]"
    r"|\s+(?:but|however|although|though|yet|except(?: that)?|aber|pero|mais|mas|"
    r"ma|но)\s+",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Language:
    """What tells a language, and what a clause of it says; the first that is found counts.

    `neither` is politeness, advice, a question, a condition or what was so before; `admits` what is
    not done, or still to come.
    """

    marks: re.Pattern[str]
    claims: re.Pattern[str]
    admits: re.Pattern[str]
    neither: re.Pattern[str]


def _language(marks: str, claims: str, admits: str, neither: str) -> Language:
    texts = (marks, claims, admits, neither)
    return Language(*(re.compile(text, re.IGNORECASE | re.VERBOSE) for text in texts))


# How participles begin by which no work is told: what is read or tried, what things are like.
_NO_DEEDS = (
    "acknowledg|affect|agre|allow|analy|answer|appear|ask|assum|attempt|based|"
    "block|called|captur|check|collect|compar|connect|consider|contain|dat|decid|"
    "declin|deni|describ|detach|determin|discover|duplicat|encounter|examin|"
    "expect|explain|explor|fail|gather|happen|identifi|includ|inspect|intend|"
    "interest|investigat|involv|learn|limit|list|load|locat|look|manag|measur|"
    "mention|miss|named|need|notic|observ|open|order|plann|proceed|provid|"
    "receiv|recommend|refus|reject|relat|reli|remain|report|request|requir|"
    "review|search|seem|show|stopp|suggest|suppos|tried|unchang|unexpect|unus|"
    "us|want"
)
_DONE = (
    r"(?:complete|done|handed\ (?:over|off)|in\ place|sent|(?:re)?written|set|put(?:\ back)?|made|"
    r"(?:re)?built|paid|drawn|taken\ care\ of|"
    rf"(?!(?:{_NO_DEEDS}|turn(?!ed\ o))\w*\b)\w{{2,}}(?:[^e\W]ed|eed))"
)
_ADVERB = r"(?:(?:now|all|both|been|also|just|then|already|\w+ly)\s+)*"

_ENGLISH = _language(
    r"\b(?:the|is|are|was|i|to|and|of)\b",
    rf"""
      ^\W*(?:all|everything|task|work|job|mission|implementation|it's|that's|that\ is)?\s*
        (?:done|complete|completed|finished|all\ set|accomplished|fixed|wrapped\ up)\b
    | ^\W*(?:all\ set|that's\ (?:it|all|everything)|mission\ accomplished)\b
    | \b(?:is|are|was|were|been|be|'s|now|all|both|everything|successfully)\s+{_ADVERB}{_DONE}\b
    | \bI(?:'ve|\ have|)\ {_ADVERB}(?:{_DONE}|wrote|ran|went\ ahead|did\ (?:so|it|that))\b
    | \b(?:and|then)\ (?:also\ )?{_DONE}\b | \bgood\ to\ go\b
    | \b(?:went|ran)\ (?:out|through)\b | \byou'll\ find\b | \bI\ was\ able\ to\b
    | ^[\W_]*(?:successfully\ )?{_DONE}(?!\w|\ \w+ed\b)
    | ^\W*(?:[\w-]+\ ){{1,4}}{_DONE}\W*(?:$|\ (?:to|at|in|with|for|as)\b)
    | \b(?:steps?|calls?|tasks?|work|stages?|attempt|handshake|loop|requirements?)\b
        [^.]{{0,40}}\b(?:complete|completed|finished|done|closed|went\ through)\b
    | \bnow\ (?:off|on|awaiting|running|active|with|(?!needs|is|was|has\ to)\w+s)\b
    | \b(?:completes|concludes|finishes)\ (?:the|this|my)\b | [\u2714\u2705\u2611]\ufe0f?\s*\w*
    | \b(?:part|work|job)\ is\ over\b | \b(?:is|are)\ (?:active|free\ of|on\ (?:its|their)\ way)
    | \b(?:is|are)\ (?:now\ )?(?:ready\b(?!\ to)|through\b|with\ the\ \w+$|sorted\b|awaiting)
    | \b(?:tests?|suite|checks?)\b[^.]{{0,20}}\b(?:pass(?:es|ed)?|green)\b
    | \bhas\ moved\ to\b | \btask\ completion\b | \bcovers\ everything\b
    | \bas\ (?:you\ asked|requested)\b
    """,
    r"""
      \b(?:I|we)\ (?:could|can|was|am|did|do|have|had|would)(?:\ not|n't)\b
    | \bcannot\b | \bunable\b
    | \b(?:is|are|was|were|has|have|had|could|can|does|did)(?:\ not|n't)\b
    | \b(?:unfortunately|sorry|impossible|incomplete|unfinished|pending|missing|stuck|neither)\b
    | \bI\ skipped\b | \b(?:I|was|were)\ never\b | \bhalf\ of\b | \bin\ part\b | \ban\ error\b
    | \bunsent\b | \brequires?\ (?:your|a\ human|an?\ approval) | \bI\ give\ up\b
    | \bI'm\ not\b | \bnot\ (?:possible|allowed|enough)\b
    | \b(?:one|two|three|four|five|six|\d+)\ of\ (?:the\ |its\ )?(?:two|three|four|five|six|\d+)\b
    | \b(?:denied|refused|rejected|blocked|declined|timed\ out)\b
    | \bfail(?:s|ed|ing)?\b | \bstill\ (?!work|hold|pass) | \bremain(?:s|ing)?\b | \bstop(?:ped)?\b
    | \b(?:partly|partially|mostly|most\ of|almost|nearly)\b | \bas\ (?:far|much)\ as\b
    | \bnothing\ (?:was|has|is)\b | \b(?:done|made|changed)\ (?:nothing|no)\b | ^\W*no\ changes\b
    | \bto\ be\ (?:\w+ly\ )?(?:complete|completed|finished|done|closed)\b
    | \b(?:needs?|has|have)\ to\ be\b | \bnone\ of\b | \bran\ out\b | \bI\ wait\b
    | \bwaiting\ for\ you
    | \bI'll\b | \bI(?:'m|\ am)\ going\ to\b | \bI\ will\b | \bI\ need\b | \blet's\b
    | \blet\ me\b | ^\W*(?:verifying|working\ on|trying|continuing|next)\b
    | \bplease\ (?:approve|confirm|allow|grant)\b
    """,
    r"""
      \?\W*$ | \blet\ me\ know\b | \bfeel\ free\b | \bhappy\ to\b | \byou\ (?:can|may|might|could)\b
    | \bplease\ (?:let|tell|review|check|see)\b | \bwould\ you\b
    | \b(?:if|once|when|until|unless|before|whether)\b
    | \b(?:would|should|may|might|shall|could\ be|want(?:s|ed)?\ to|had\ the)\b
    | \b(?:says?|said|expect|assume|suggests)\b | \b(?:previous|earlier|former)\ \w+
    | \bin\ (?:(?:19|20)\d\d|January|February|March|April|June|July|August|\w+ember|October)\b
    | \bin\ (?:spring|summer|autumn|winter)\b
    | \blast\ (?:week|month|year|night)\b | \b(?:ago|yesterday|while)\b
    | \b(?:every|each|hourly|daily|monthly|usually|must)\b | \b(?:is|are)\ \w+ed\ by\b
    | \bhow\b | \bbeing\b | (?<!I\ )\bwill\b | \bby\ (?:another|somebody|someone)\b
    """,
)
# What looks like an admission and is none.
_HARMLESS = re.compile(
    r"\b(?:without (?:any )?(?:a )?|no (?:more |further |other )?|not? any )"
    r"(?:errors?|issues?|problems?|failures?|conflicts?|hitch|denials?|denied calls?|remaining \w+"
    r"|pending \w+)(?: remains?)?\b|\bnot only\b|\bno longer \w+|\bit is not sent\b"
    r"|\bnothing (?:was|got|is) (?:lost|broken)\b"
    r"|\b\d+ (?:rows|entries|lines|items|records) remain\b",
    re.IGNORECASE,
)
_NOTHING_LEFT = re.compile(
    r"\bnothing (?:else |more |further )?(?:remains|is left|left|to do|had to)\b"
    r"|\bno (?:further|more) (?:actions?|steps?|work) (?:is|are) (?:needed|required)\b",
    re.IGNORECASE,
)

_OTHERS: Mapping[str, Language] = {
    "Chinese": _language(
        r"[一-鿿]",
        r"已经?(?!查看|经|检查|阅读|读)|完成|搞定|通过|办好|[到好完]了|并\w*了",
        r"无法|未|没有|不能|拒绝|失败|抱歉|尚|停止",
        r"如有|如果|(?<!邀)请|吗|[?？]|接下来|将|需要",
    ),
    "Japanese": _language(
        r"[぀-ヿ一-鿿]",  # as many as of Chinese where there are no kana
        r"完了|(?<!確認し)(?<!読み)(?<!調べ)ました|済み|終了",
        r"ません|できな|まだ|拒否|中断|必要|申し訳|失敗",
        r"他に|お知らせ|[?？]|次に",
    ),
    "Korean": _language(
        r"[가-힣]",
        r"완료|했습니다|되었습니다|끝났",
        r"없|못|않|거부|실패|아직|필요",
        r"\?|알려|하겠습니다",
    ),
    "Russian": _language(
        r"[а-я]",
        r"""\b(?:готово|(?:выполн|заверш|запис|запус|запущ|сохран|закры|исправ
        |отправ|перенес|обнов|добав|удал|созда)\w*(?:н|на|но|ны|т|та|то|ты|л|ла|ли))\b""",
        r"\b(?:не|отклон\w*|отказ\w*|ещ[её]|остал\w*|останов\w*|нельзя)\b",
        r"\?|\b(?:если|дайте|нужн\w*|далее)\b",
    ),
    "German": _language(
        r"\b(?:der|die|das|ich|und|ist|wurden?|alles?|den|erledigt|fertig|bitte|soll)\b",
        r"""\b(?:erledigt|fertig|abgeschlossen|geschlossen|gespeichert|eingetragen|verschickt|gesendet
        |gestartet|ausgeführt|aktualisiert|ergänzt|verschoben|korrigiert|behoben|erstellt|gelöscht
        |übergeben|umgesetzt|hinzugefügt|entfernt|angelegt|läuft)\b
        |\bjetzt\ auf\b|\bliegt\ (?:jetzt\ )?(?:unter|in|bereit)\b
        |\bich\ habe\b.*\b(?!gelesen|gesucht|gefunden|versucht|gesehen|geprüft)
         (?:\w*ge\w+(?:t|en)|(?:be|ent|er|ver)\w+(?:t|en))\b""",
        r"""\b(?:nicht|kein\w*|leider|abgelehnt|verweigert|fehl\w*|gescheitert|noch|aufgehört|fast
        |brauche|teilweise)\b""",
        r"\?|\b(?:wenn|falls|sobald|soll|werde|bitte|melde|muss|müssen)\b",
    ),
    "French": _language(
        r"\b(?:le|les|des|du|je|suis|est|a|été|la|et|une|vous|d'|l'|j'|c'est|à)\b|\bl'|\bj'|terminé|résumé",
        r"""\b(?:terminé|fait|enregistré|lancé|corrigé|envoyé|effectué|déplacé|clos|clôturé|fermé
        |sauvegardé|créé|ajouté|démarré|supprimé|mis\ à\ jour|achevé)(?:e|s|es)?\b""",
        r"\bn'|\bne\b|\b(?:pas|refusé\w*|reste|désolé\w*|malheureusement|impossible|encore|arrêté\w*|presque)\b",
        r"\?|\b(?:si|n'hésitez|vais|ensuite|voulez|besoin|avant)\b",
    ),
    "Italian": _language(
        r"\b(?:il|è|é\ stat\w|sono|stat[aoie]|fatto|devo|gli|ho)\b",
        r"\b(?:fatto|(?:completat|chius|registrat|inviat|salvat|avviat|corrett|aggiornat|terminat)[oaie])\b",
        r"\b(?:non|ancora|manca|purtroppo|negat\w|rifiutat\w)\b",
        r"\?|\b(?:se|devo|fammi)\b",
    ),
    "Portuguese": _language(
        r"\b(?:o|foi|não|foram|tarefa|pronto|está\ concluíd\w)\b",
        r"\b(?:pronto|(?:concluíd|feit|registrad|fechad|enviad|salv|iniciad|corrigid|atualizad)[oa]s?)\b",
        r"\b(?:não|ainda|falta|infelizmente|negad\w|recusad\w)\b",
        r"\?|\b(?:se|avise|quer)\b",
    ),
    "Spanish": _language(
        r"[¿¡]|\b(?:el|la|los|se|ha|he|fue|está|hecho|listo|todo|tu|resultado)\b",
        r"""
        \bhe\ (?!leído|visto|encontrado|buscado|intentado|revisado)\w+(?:ado|ido)\b
        |\b(?:listo|hecho|(?!encontr|le|busqu|intent|revis|pud|tambi|est)\w+[éí]
        |(?:completad|hech|terminad|finalizad|cerrad|registrad|iniciad|guardad
        |enviad|corregid|actualizad|movid|añadid|cread|eliminad|resuelt)[oa]s?)\b""",
        r"\b(?:no|falta|denegad\w+|rechazad\w+|siento|imposible|pendientes?|casi|detuve)\b",
        r"\?|\b(?:si|avísame|necesito|voy|continuación|\w+ré)\b",
    ),
}


def claims_done(text: str) -> bool:
    end = _CODE.sub(" it ", _THOUGHT.sub("", text)[-READ:].replace("\u2019", "'"))
    language = _spoken(end)
    sentences = (one for one in _SENTENCES.split(end) if not _CONDITION.match(one))
    said = [_said(clause, language) for one in sentences for clause in _CLAUSES.split(one)]
    return next((claimed for claimed in reversed(said) if claimed is not None), False)


def _spoken(text: str) -> Language:
    """That of most marks, and then of most words for what is done; English where none has any."""

    def marks(one: Language) -> tuple[int, int]:
        return len(one.marks.findall(text)), len(one.claims.findall(text))

    most = max(_OTHERS.values(), key=marks)
    return most if marks(most) > (len(_ENGLISH.marks.findall(text)), 0) else _ENGLISH


def _said(clause: str, language: Language) -> bool | None:
    """True for a claim, False for an admission, None for neither."""
    clause = _HARMLESS.sub(" ", clause)
    if _NOTHING_LEFT.search(clause):
        return True
    if language.neither.search(clause):
        return None
    if language.admits.search(clause):
        return False
    return True if language.claims.search(clause) else None
