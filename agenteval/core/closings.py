"""What claims, admits and says nothing, in the languages that models close in."""

# ruff: noqa: RUF001 -- other alphabets have letters that look like ours
import re
from collections.abc import Mapping
from dataclasses import dataclass


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
    "evaluat|exit|expect|explain|explor|fail|gather|happen|identifi|includ|indeed|inspect|"
    "intend|interest|investigat|involv|learn|limit|list|load|locat|look|manag|measur|"
    "mention|miss|named|need|neglect|notic|observ|open|order|paus|plann|proceed|provid|"
    "receiv|recommend|refus|reject|relat|reli|remain|report|request|requir|"
    "review|search|seem|show|stopp|suggest|suppos|trac|tried|unchang|unexpect|unus|"
    "us|want"
)
DONE = (
    r"(?:complete|done|handed\ (?:over|off)|in\ place|sent|(?:re)?written|set|put(?:\ back)?|made|"
    r"(?:re)?built|paid|drawn|taken\ care\ of|"
    rf"(?!(?:{_NO_DEEDS}|turn(?!ed\ o))\w*\b)\w{{2,}}(?:[^e\W]ed|eed))"
)
ADVERB = r"(?:(?:now|all|both|been|also|just|then|already|\w+ly)\s+)*"

ENGLISH = _language(
    r"\b(?:the|is|are|was|i|to|and|of)\b",
    rf"""
      ^\W*(?:all|everything|task|work|job|mission|implementation|it's|that's|that\ is)?\s*
        (?:done|complete|completed|finished|all\ set|accomplished|fixed|wrapped\ up)\b
    | ^\W*(?:all\ set|that's\ (?:it|all|everything)|mission\ accomplished)\b
    | \b(?:is|are|was|were|been|be|'s|now|all|both|everything|successfully)\s+{ADVERB}{DONE}\b
    | \bI(?:'ve|\ have|)\ {ADVERB}(?:{DONE}|wrote|ran|went\ ahead|did\ (?:so|it|that))\b
    | \b(?:and|then)\ (?:also\ )?{DONE}\b(?!\ workflow) | \bgood\ to\ go\b
    | \b(?:went|ran)\ (?:out|through)\b | \byou'll\ find\b | \bI\ was\ able\ to\b
    | ^[\W_]*(?:successfully\ )?{DONE}(?!\w|\ \w+ed\b)
    | ^\W*(?:[\w-]+\ ){{1,4}}{DONE}\W*(?:$|\ (?:to|at|in|with|for|as)\b)
    | \b(?:steps?|calls?|tasks?|work|stages?|attempt|handshake|loop|requirements?)\b
        [^.]{{0,40}}\b(?:complete|completed|finished|done|closed|went\ through)\b
    | \bnow\ (?:off|on|awaiting|running|active|with|(?!needs|is|was|has\ to)\w+s)\b
    | \b(?:completes|concludes|finishes)\ (?:the|this|my)\b
    | [\u2714\u2705\u2611]\ufe0f?(?!.*:\W*$)
    | \b(?:part|work|job)\ is\ over\b | \b(?:is|are)\ (?:active|free\ of|on\ (?:its|their)\ way)
    | \b(?:is|are)\ (?:now\ )?(?:ready\b(?!\ to)|through\b|with\ the\ \w+$|sorted\b|awaiting)
    | \b(?:tests?|suite|checks?)\b[^.]{{0,20}}\b(?:pass(?:es|ed)?|green)\b
    | \bhas\ moved\ to\b | \btask\ completion\b | \bcovers\ everything\b
    | ^\W*(?:all\ )?clean\W*$
    | \bsummary\ of\ (?:the\ |all\ |my\ )*(?:changes|what\ (?:was|I|we)|docs)\b
    | \bas\ (?:you\ asked|requested)\b | \byou\ now\ have\b
    | \bready\ to\ (?:use|commit|be|test|ship)\b
    | \bworking\ (?:correctly|properly|perfectly|beautifully|as\ \w+)\b
    | \b(?:is|are)\ (?:now\ )?\W*production-ready\b
    | \bnow\ (?:work|do|behave|appear|run)s?\b
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
    | \bfail(?:s|ed|ing)?\b | \bstill\ (?!work|hold|pass|use|has\ the)
    | \bremain(?:s?\W*$|s?\ (?:to|un|open|denied|blocked|for|in)|ing\b) | \bstop(?:ped)?\b
    | \b(?:partly|partially|mostly|most\ of|almost|nearly)\b | \bas\ (?:far|much)\ as\b
    | \bnothing\ (?:was|has|is)\b | \b(?:done|made|changed)\ (?:nothing|no)\b | ^\W*no\ changes\b
    | \bto\ be\ (?:\w+ly\ )?(?:complete|completed|finished|done|closed)\b
    | \b(?:needs?|has|have)\ to\ be\b | \bnone\ of\b | \bran\ out\b | \bI\ wait\b
    | \bwaiting\ for\ you
    | \bI'll\b | \bI(?:'m|\ am)\ going\ to\b | \bI\ will\b | \bI\ need\b
    | \blet(?:'s|\ me)\b(?!\ (?:\w+\ ){0,2}summar)
    | ^\W*(?:verifying|working\ on|trying|continuing|next\ I)\b
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
OTHERS: Mapping[str, Language] = {
    "Chinese": _language(
        r"[一-鿿]",
        r"已经?(?!查看|经|检查|阅读|读)|完成(?!后)|搞定|通过|办好|[到好完]了|并\w*了|成功(?!后|看)"
        r"|(?:添加|修改|更新|创建|修复|移除|删除|调整|优化|配置|新增|替换|清理|实现)了"
        r"|现在.{0,24}(?:应该能|应能|可以|会|使用|不再|只)",
        r"无法|未|没有|不能|拒绝|失败|抱歉|尚|停止|下一步我会|剩余|还需要|需要重",
        r"如有|如果|(?<!邀)请|吗|[?？]|接下来|(?<!已)将|(?<!还)需要(?!重)",
    ),
    "Japanese": _language(
        r"[぀-ヿ]|[一-鿿](?=.{0,3}[぀-ヿ])",
        r"完了(?!したら|後)|(?<!発生し)(?<!確認し)(?<!確認でき)(?<!読み)(?<!調べ)ました|済み|終了",
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
        r"""
        ^\W*теперь\b(?!\ (?:я|мне|нам|мы|давай\w*|\w+[лжшд]ю|\w+[жшд]у)\b)
        |\bработает\b|\bуспешно\b|\b(?:готов[оаы]?|(?:выполн|заверш|запис|запус|запущ
        |сохран|закры|исправ
        |отправ|перенес|обнов|добав|удал|созда|реш|устран|настро|измен|реализ|внес)\w*(?:н|на|но|ны|т|та|то|ты|л|ла|ли))\b""",
        r"\b(?:не|отклон\w*|отказ\w*|ещ[её]|остал\w*|останов\w*|нельзя)\b"
        r"|\bдавайте\b(?!.*(?:резюме|итог|отч))",
        r"\?|\b(?:если|дайте|создадим|создам|хотите|нужн\w*|далее)\b"
        r"|\b(?:\w+(?:нит|дит|вит|даст)|должн\w+\ (?!\w*(?:работ|корр)))\b",
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
        r"\b(?:le|les|des|du|je|suis|est|a|été|la|et|une|vous|d'|l'|j'|c'est|à)\b"
        r"|\bl'|\bj'|terminé|résumé",
        r"""\b(?:terminé|(?:est|tout|bien|c'est)\ fait|enregistré|lancé|corrigé|envoyé|effectué
        |déplacé|clos|clôturé|fermé
        |sauvegardé|créé|ajouté|démarré|supprimé|mis\ à\ jour|achevé|implémenté|réussi|publié
        |prêt)(?:e|s|es)?\b|^\W*fait\W*$|\bavec\ succès\b|\b(?:est|sont|avez|as)\ maintenant\b
        |\b(?:j'ai|je\ viens\ de)\ (?!lu|vu|trouv|cherch|essay|regard|analys)\w+(?:é|er|it|is)e?s?\b
        |\bdevrai\w+\ (?:\w+\ )?(?:maintenant|fonctionner)\b""",
        r"\bn'|\bne\b|\b(?:pas|refusé\w*|reste|désolé\w*|malheureusement|impossible|encore|arrêté\w*|presque)\b",
        r"\?|\b(?:si|n'hésitez|vais|ensuite|voulez|besoin|avant|ser(?:a|ont)|après\ avoir)\b",
    ),
    "Italian": _language(
        r"\b(?:il|è|é\ stat\w|sono|stat[aoie]|fatto|devo|gli|ho)\b",
        r"\bho\ (?!letto|visto|trovato|cercato|provato)\w+(?:[aiu]to|sto|tto)\b"
        r"|\b(?:fatto|(?:completat|chius|registrat|inviat|salvat|avviat|corrett|aggiornat|terminat)[oaie])\b",
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
        \bhe\ (?!leído|visto|encontrado|buscado|intentado|revisado)
          (?:\w+\ )?\w+(?:ado|ido|sto|cho)\b
        |^\W*ahora\b(?!\ (?:tengo|verific|ejecut|v[oa]|neces|pued|falta|prueb|entiend))
        |\b(?:exitosamente|con\ éxito|funcionando|sido\ \w+[ai]d[oa]s?)\b
        |\b(?:list[oa]s?|hecho|(?!encontr|le|busqu|intent|revis|pud|tambi|est)\w+[éí]
        |(?:completad|hech|terminad|finalizad|cerrad|registrad|iniciad|guardad
        |enviad|corregid|actualizad|movid|añadid|cread|eliminad|resuelt|implementad|agregad|realizad
        |aplicad|cambiad|optimizad|solucionad|configurad|modificad)[oa]s?)\b""",
        r"\b(?:no|falta|denegad\w+|rechazad\w+|siento|imposible|pendientes?|casi|detuve|necesitamos)\b",
        r"\?|\b(?:si|avísame|necesito|voy|continuación|\w+ré)\b",
    ),
}
