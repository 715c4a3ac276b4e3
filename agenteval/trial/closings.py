"""Patterns of claims, admissions and neutral phrases, in the languages models close in."""
# ruff: noqa: RUF001 -- other alphabets have letters that look like ours

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """Patterns that identify a language and classify its clauses; the first that matches counts.

    `neither` matches politeness, advice, questions, conditions and earlier states. `admits` matches
    work that is not done, or still to come.
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
    "acknowledg|affect|agre|allow|analy|answer|appear|ask|assum|attempt|based|block|called|captur|"
    "check|collect|compar|connect|consider|contain|dat|decid|declin|deni|describ|detach|determin|"
    "discover|duplicat|encounter|examin|evaluat|exit|expect|explain|explor|fail|gather|happen|"
    "identifi|includ|indeed|inspect|intend|interest|investigat|involv|learn|limit|list|load|locat|"
    "look|manag|measur|mention|miss|named|need|neglect|notic|observ|open|order|paus|plann|proceed|"
    "propos|provid|receiv|recommend|refer|refus|reject|relat|reli|remain|report|request|requir|"
    "review|search|seem|select|show|stopp|suggest|suppos|trac|tried|unchang|unexpect|unus|us|want|"
    "defin|underspecif|trigger|caus|hardcod|coupl|expos|ignor|skipp|abort|interrupt"
)
DONE = (
    r"(?:complete|done|handed\ (?:over|off)|in\ (?:place|effect)|sent|(?:re)?written|set|made|"
    r"(?:re)?built|paid|drawn|taken\ care\ of|"
    rf"(?:re-)?(?!(?:{_NO_DEEDS}|turn(?!ed\ o))\w*\b)[^\W_]{{2,}}(?:[^e\W]ed|eed))"
)
ADVERB = r"(?:(?:now|all|both|been|also|just|then|already|\w+ly)\s+)*"
# A deed, whatever else its clause says of what will be.
DEED = re.compile(
    rf"^\W*(?:(?:and|so|then|now)\ )?I(?:'ve|\ have|)\ {ADVERB}(?:{DONE}|wrote)"
    r"(?!(?<=added).*\bdebug"
    r"|.*\bto\ help\ (?:us\ |you\ |me\ )?(?:identify|diagnose|find|see|understand))"
    r"|\bwhat\ (?:I|we)(?:'ve|\ have)?\ (?:changed|did|fixed|added|removed|built|updated)\b"
    r"|(?<!you)\ should\ now\ (?:be|work|appear|show|build|pass|resolve|load)\b"
    r"|\b(?:this|that|these\ changes|which)\ should\ (?:fix|resolve|solve)\b"
    r"|^\W*(?:it|the\ \w+(?:\ \w+)?)\ should\ (?:now\ )?(?:work(?:\ now)?|be\ (?:fixed|resolved))\b"
    r"|^\W*now(?:\ (?:the|it|this|when|all|both)\b|,\ when\b)"
    r".{0,300}\b(?:will|should|works?|shows?)\b",
    re.IGNORECASE | re.VERBOSE,
)
NOTHING_LEFT = re.compile(
    r"^\W*(?:everything|all\b.{0,30}) (?:is|are|was|were) already \w+ed\b"
    r"|^\W*already (?:up to date|(?:push|complet|merg|fix|deploy|committ)ed)\b|\bnothing (?:else "
    r"|more |further )?(?:remains|is left|left|to do|had to)\b|\bno (?:(?:further"
    r"|more) (?:actions?|steps?|work) (?:is|are) (?:needed|required)\b|(?:\w+ ){1,2}remains?\W*$)",
    re.IGNORECASE,
)
ENGLISH = _language(
    r"\b(?:the|is|are|was|i|to|and|of|for|with|this|that|from|now|added|removed)\b",
    rf"""
      ^\W*(?:all|everything|task|work|job|mission|implementation|it's|that's|that\ is)?\s*
        (?:done|complete|completed|finished|all\ set|accomplished|fixed|wrapped\ up)\b
    | ^\W*(?:all\ set|that's\ (?:it|all|everything)|mission\ accomplished)\b
    | \b(?:is|are|was|were|been|be|'s|now|all|both|everything|successfully)\s+{ADVERB}{DONE}\b
    | \bI(?:'ve|\ have|)\ {ADVERB}(?:{DONE}|wrote|ran|went\ ahead|did\ (?:so|it|that))\b
    | \b(?:and|then)\ (?:also\ )?{DONE}\b(?!\ workflow) | \bgood\ to\ go\b
    | \b(?:went|ran)\ (?:out|through|over\ to)\b | \bon\ record\b | \bthat\ should\ do\ it\b
    | (?:\w\ds?|[^\Ws]s|both|all|they|these)\ now\ (?!is|are|was|were|need|has|have\ to)\w+\b
    | \byou'll\ find\b | \bI\ was\ able\ to\b | \bput\ back\b | \bI(?:'ve|\ have|)\ {ADVERB}put\b
    | ^[\W_]*(?:successfully\ )?(?!set\ up\b){DONE}(?![\w-]|\ \w+ed\b)
    | ^\W*(?:[\w.-]+\ ){{1,4}}{DONE}\W*(?:$|\ (?:to|at|in|with|for|as)\b)
    | \b(?:steps?|calls?|tasks?|work|stages?|attempt|handshake|loop|requirements?)\b
        [^.]{{0,40}}\b(?:complete|completed|finished|done|closed|went\ through)\b
    | \bnow\ (?:off|on|awaiting|running|active|with|(?!needs|is|was|has\ to)\w+s)\b
    | \b(?:completes|concludes|finishes)\ (?:the|this|my)\b | \bsuccessfully\W*$
    | \bhere's\ what\ (?:was\ |I\ |we\ |has\ been\ |I've\ )?
        (?:changed|done|did|added|fixed|implemented|updated|removed|cleaned)
    | [\u2714\u2705\u2611]\ufe0f?(?!.*:\W*$)
    | \b(?:part|work|job)\ is\ over\b | \b(?:is|are)\ (?:active|free\ of|on\ (?:its|their)\ way)
    | \b(?:is|are)\ (?:now\ )?(?:ready\b(?!\ to)|through\b|with\ the\ \w+$|sorted\b|awaiting)
    | \b(?:tests?|suite|checks?)\b[^.]{{0,20}}\b(?:pass(?:es|ed)?|green)\b
    | \b(?:lint(?:er|ing)?|build|compilation|validation|types?)\b[^.]{{0,20}}
        \b(?:pass(?:es|ed)?|clean\w*|succeed\w*|green)\b
    | ^\W*(?:all|everything)\ (?:is\ )?(?:green|clean|pass(?:es|ing))\b
    | \bhere's\ what\ I\ (?:did|changed)\b | \b(?:is|are)\ now\ \w+ed\b
    | \bhas\ moved\ to\b | \btask\ completion\b | \bcovers\ everything\b | ^\W*(?:all\ )?clean\W*$
    | \bsummary\ of\ (?:the\ |all\ |my\ )*(?:changes|what\ (?:was|I|we)|docs)\b
    | \bas\ (?:you\ asked|requested)\b | \byou\ now\ have\b
    | \bready\ to\ (?:use|commit|be|test|ship|go)\b | ^\W*now\ (?:it|this|the\ \w+|both|all)\ \w
    | \bwhat\ (?:I|we)(?:'ve|\ have)?\ {ADVERB}{DONE}\b | \bwhat\ was\ (?:set\ up|done)\b
    | \bworking\ (?:correctly|properly|perfectly|beautifully|as\ \w+)\b
    | \b(?:is|are)\ (?:now\ )?\W*production-ready\b
    | \w\ now\ (?:work|do|behave|appear|run|use|show|have|get|go|open|return|read|write|send
    |start|handle
        |include|match|point|contain|accept|support|keep)s?\b
    | \b(?:is|are)\ now\ (?:an?|the|in|at|under|available|possible|live|up|back|gone|part)\b
    | \b(?:is|are)\ (?:up\ and\ )?(?:running|live)\b(?=\W*$|\ (?:at|on|again|\(|and)\b|\ \()
    | {DONE}\ successfully\b | \b(?:history|tree)\ is\ (?:now\ )?clean\b
    | ^\W*(?:the|it|your|all|both)\b.*\w\ now\W*$
    """,
    r"""
      \b(?:I|we)\ (?:could|can|was|am|did|do|have|had|would)(?:\ not|n't)\b
    | \bcannot\b | \bunable\b | \b(?:is|are|was|were|has|have|had|could|can|does|did)(?:\ not|n't)\b
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
    | \bstill\ waiting\b | \bwaiting\ (?:on|for)\ (?:you|team|tasks?|build|approval|confirmation)
    | \bI'll\b | \bI(?:'m|\ am)\ going\ to\b | \bI\ will\b | \bI\ need\b
    | \blet(?:'s|\ me)\b(?!\ (?:\w+\ ){0,2}summar) | ^\W*(?:cancell?ed|aborted|interrupted)\W*$
    | ^\W*(?:verifying|working\ on|trying|continuing|next\ I)\b
    | \bplease\ (?:approve|confirm|allow|grant)\b
    """,
    r"""
      \?\W*$ | \blet\ me\ know\b | \bfeel\ free\b | \bhappy\ to\b | \byou\ (?:can|may|might|could)\b
    | \bplease\ (?:let|tell|review|check|see)\b | \bwould\ you\b
    | \b(?:if|once|when|until|unless|before|whether)\b | \b(?:likely|probably|apparently|perhaps)\b
    | \b(?:would|should|may|might|shall|(?:could|can)\ be|want(?:s|ed)?\ to|had\ the)\b
    | \b(?:says?|said|expect|assume|suggests)\b | \b(?:previous|earlier|former)\ \w+
    | \bin\ (?:(?:19|20)\d\d|January|February|March|April|June|July|August|\w+ember|October)\b
    | \bin\ (?:spring|summer|autumn|winter)\b
    | \blast\ (?:week|month|year|night)\b | \b(?:ago|yesterday|while)\b
    | \b(?:every|each|hourly|daily|monthly|usually|must)\b | \b(?:is|are)\ \w+ed\ by\b
    | \bto\ help\ (?:us\ |you\ |me\ )?(?:debug|identify|diagnose|find|see|understand)\b
    | \bdebug(?:ging)?\ (?:logs?|logging|output|prints?|statements?)\b
    | \b(?:that|which)\ (?:is|are)\ \w+ed\b | \b(?:is|are)\ already\b
    | \bI\ (?:can\ )?see\b | \byou(?:'ve|\ have|\ just)?\ made\b
    | \bhow\b | \bbeing\b | \bgenerated\ with\b | (?<!I\ )\bwill\b
    | \bby\ (?:another|somebody|someone)\b
    """,
)
_CHINESE_DEEDS = (
    "添加|去掉|重写|增加|修改|更新|创建|修复|移除|删除|删掉|调整|优化|配置|新增|替换|清理|实现|发送|发出|提交|保存|推送|部署|合并"
    "|记录|关闭|启动|迁移|改成|改为|改完|写入|写好|应用|安装|恢复|处理|解决|生成|设置|安排|通知|登记|转交|移交|交给"
    "|归档|同步|上传|发布|加入|加进|放入|切换|整理|标记|取消|预订|完全移除|执行|运行|完成|修正|更正|重启|编译|归还|寄出|加到|放到|写到|回退|改到|发出|订好"
)
_CHINESE_DEEDS_DONE = rf"(?:{_CHINESE_DEEDS}|改|加|补)(?:好|完)?了"
OTHERS: Mapping[str, Language] = {
    "Chinese": _language(
        r"[一-鿿]",
        rf"(?:(?<!图)已经?|并)[^，。]{{0,24}}?(?:{_CHINESE_DEEDS})(?!\w{{0,8}}后)|{_CHINESE_DEEDS_DONE}"
        r"|(?<!分钟)(?<!就)搞定|已\s?[a-z]+ed\b|完成(?!后)|测试通过|编译通过|全部通过|[办写改弄做修]好了"
        r"|(?<!看)(?<!买)完了|(?<!就)成功(?!后|看)"
        r"|现在.{0,24}(?:应该能|应能|可以|会|使用|不再|只)",
        r"无法|未|没有|不能|拒绝|失败|抱歉|尚|停止|下一步我会|剩余|还需要|需要重|已?开始.{0,30}了?——先",
        r"如有|如果|可能|(?<!邀)请|吗|[?？]|接下来|(?<!已)将|(?<!还)需要(?!重)|截图|发我|发给我|告诉我",
    ),
    "Japanese": _language(
        r"[぀-ヿ]|[一-鿿](?=.{0,3}[぀-ヿ])",
        r"完了(?!したら|後)|(?<!発生し)(?<!確認し)(?<!確認でき)(?<!読み)(?<!調べ)ました|済み|終了",
        r"ません|できな|まだ|拒否|中断|必要|申し訳|失敗",
        r"他に|知らせ|[?？]|次に|ください|エラーは?(?:あり|な)",
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
        ^\W*теперь\b(?!\ (?:я|мне|нам|мы|давай\w*|\w+[лжшд]ю|\w+[жшд]у|\w+(?:им|ем|ём|у|ю))\b)
        |^\W*(?:я\ |и\ |также\ |уже\ )?(?!сначала|мало|анализ|проанализ|прочит|посмотр|провер
        |наш[её]л|попроб|пыта|увид|изуч|искал|получ)
          (?:\w{4,}(?:[аиеяуё]л|[аиеяу]ла|[аиеяу]ли)|(?:пере|при|от|в|за|под|раз)(?:н[её]с
          |в[её]л)(?:л?[аи])?)\b
        |\b(?!нужен|недоступ|долж|важен|равен|доступен|отмен|уверен|прочит|найд|провер
        |одобр)\w{4,}(?:ан|ен|ён|ят|ыт)[аоы]?\b(?=\W|$)
        |\bработает\b|\bуспешно\b|\b(?:готов[оаы]?|(?:выполн|заверш|запис|запус|запущ
        |сохран|закры|исправ
        |отправ|перенес|обнов|добав|удал|созда|реш|устран|настро|измен|реализ|внес)\w*(?:н|на|но
        |ны|т|та|то|ты|л|ла|ли))\b""",
        r"\b(?:не|отклон\w*|отказ\w*|ещ[её]|остал\w*|останов\w*|нельзя)\b"
        r"|\bдавайте\b(?!.*(?:резюме|итог|отч))",
        r"\?|^\W*(?:вы|ты)\b|\b(?:если|дайте|создадим|создам|хотите|нужн\w*|далее)\b|\bготов\w*\s+(?:ли|вы|приступ|перей|нач|исправ|продолж)"
        r"|\b(?:\w+(?:нит|дит|вит|даст)|должн\w+\ (?!\w*(?:работ|корр)))\b",
    ),
    "German": _language(
        r"\b(?:der|die|das|dem|im|ich|und|ist|sind|nicht|kein\w*|wurden?|alles?|den|erledigt"
        r"|fertig|bitte|soll)\b",
        r"""\b(?:erledigt|fertig|abgeschlossen|geschlossen|gespeichert|eingetragen|verschickt
        |gesendet
        |gestartet|ausgeführt|aktualisiert|ergänzt|verschoben|korrigiert|behoben|erstellt|gelöscht
        |übergeben|umgesetzt|hinzugefügt|entfernt|angelegt|läuft)\b
        |\bjetzt\ auf\b|\bliegt\ (?:jetzt\ )?(?:unter|in|bereit)\b
        |\bich\ habe\b.*\b(?!gelesen|gesucht|gefunden|versucht|gesehen|geprüft)
         (?:\w*ge\w+(?:t|en)|(?:be|ent|er|ver)\w+(?:t|en)|\w+iert)\b
        |\b(?:ist|sind|wurden?|worden)\b.*\b(?!gelesen|gesucht|gefunden|versucht|gesehen|geprüft
        |gedacht|gemeint
          |gewesen|bekannt|betroffen|enthalten|erlaubt|gefragt|gegeben|gestern|verboten
          |vorgesehen|geplant)
         (?:\w*ge\w{2,}(?:t|en)|(?:be|ent|er|ver|über)\w{3,}(?:t|en)|\w+iert)\b""",
        r"""\b(?:nicht|kein\w*|leider|abgelehnt|verweigert|fehl\w*|gescheitert|noch|aufgehört|fast
        |brauche|teilweise)\b""",
        r"\?|\b(?:wenn|falls|sobald|soll|werde|(?:19|20)\d\d|bitte|melde|muss|müssen)\b",
    ),
    "French": _language(
        r"\b(?:le|les|des|du|je|suis|est|été|et|une|vous|avec|pour|dans|d'|l'|j'|c'est|à)\b"
        r"|\bl'|\bj'|terminé|résumé",
        r"""\b(?:terminé|(?:est|tout|bien|c'est)\ fait|enregistré|lancé|corrigé|envoyé|effectué
        |déplacé|clos|clôturé|fermé
        |sauvegardé|créé|ajouté|démarré|supprimé|mis\ à\ jour|achevé|implémenté|réussi|publié
        |prêt|mis|fait|écrit|appliqué|restauré|résolu|relancé|configuré|modifié|remplacé|installé
        |rendu
          |notifié|validé|transmis|inscrit|réservé|annulé)(?:e|s|es)?\b
        |\b(?:est|sont|a\ été|ont\ été|avons|ai)\ (?:(?:bien|tous|toutes|désormais|aussi|déjà
        |\w+ment)\ )*
          (?!refusé|lu|vu|trouvé|cherché|essayé|regardé|analysé|vide|bloqué|interdit|prévu
          |affiché|permis)\w{3,}(?:é|i|u|it|is)(?:e|s|es)?\b|^\W*fait\W*$|\bavec\ succès\b
          |\b(?:est|sont|avez|as)\ maintenant\b
        |\b(?:j'ai|je\ viens\ de)\ (?!lu|vu|trouv|cherch|essay|regard|analys)\w+(?:é|er|it|is)e?s?\b
        |\bdevrai\w+\ (?:\w+\ )?(?:maintenant|fonctionner)\b""",
        r"\bn'|\bne\b|\b(?:pas|refusé\w*|reste|désolé\w*|malheureusement|impossible|encore"
        r"|arrêté\w*|presque)\b",
        r"\?|\b(?:si|n'hésitez|vais|ensuite|voulez|besoin|avant|ser(?:a|ont)|après\ avoir)\b",
    ),
    "Italian": _language(
        r"\b(?:il|è|é\ stat\w|sono|stat[aoie]|fatto|devo|gli|ho|di|del|della|che|per|nel|nella"
        r"|ora|adesso|gi[aà]|nessun\w*)\b",
        r"\bho\ (?:(?:gi[aà]|anche|ora|poi)\ )*(?!letto|visto|trovato|cercato"
        r"|provato|verificato|controllato|analizzato|esaminato)\w+(?:[aiu]to|sto|tto|so)\b"
        r"|\b(?:è|sono)\ (?:(?:gi[aà]|ora|stat[oaie])\ )*(?!negat|rifiutat|vist|trovat|lett"
        r"|cercat|vuot|corrett|giust|esatt|occupat|success|stess|quest|necessit|limitat"
        r"|stat[oaie]\W)\w+(?:[aiu]t|tt|st|s)[oaie]\b(?!\W*che)"
        r"|\bstat[oaie]\ corrett[oaie]\b"
        r"|^\W*(?:tutto\ |(?!nessun)\w+\ (?=\w+\W*$))?"
        r"(?:fatto|(?:completat|chius|registrat|inviat|salvat|avviat|aggiornat|terminat|modificat"
        r"|aggiunt|creat|rimoss|risolt|configurat|implementat|spostat|sistemat|cancellat|eliminat"
        r"|installat)[oaie])\b"
        r"|\b(?:è|sono|tutto) pront[oaie]\b|^\W*pronto\b",
        r"\b(?:non|ancora|manca|purtroppo|negat\w|rifiutat\w)\b",
        r"\?|\b(?:se|devo|fammi)\b",
    ),
    "Portuguese": _language(
        r"\b(?:o|os|um|uma|foi|não|foram|são|está|você|do|da|no|na|e|com|em|ao|tarefa|pronto)\b",
        r"""\b(?:pronto|(?:conclu[ií]d|feit|registrad|fechad|enviad|salv|iniciad|corrigid
        |atualizad|implementad
        |resolvid|criad|adicionad|removid|aplicad|ajustad|configurad|testad|validad|gerad|finalizad
        |realizad|alterad|modificad|instalad|movid|executad)[oa]s?)\b
        |\b(?:foi|foram|est[áã]o?|ficou|ficaram|tenho)\ (?:(?:já|todos?|agora|\w+mente)\ )*
          (?!negad|recusad|lid|vist|encontrad|bloquead|tentad|planejad|desatualizad
          |previst)\w+[ai]d[oa]s?\b
        |^\W*(?:eu\ |já\ |e\ |também\ )*(?!li\b|vi\b|aqui|ali|si\b|nem|tentei|procurei|encontrei
        |verifiquei|sei|precisei|busquei)
          (?:\w{2,}ei|\w+uí|(?:mov|abr|corrig|cumpr|inser|transfer|defin|resolv|escrev|convert
          |reun)i)\b|\b100%\ complet[oa]\b""",
        r"\b(?:não|ainda|falta|infelizmente|negad\w|recusad\w|bloquead\w|aguard\w+)\b",
        r"\?|\b(?:se|avise|quer|vou|precisa|pode)\b",
    ),
    "Spanish": _language(
        r"[¿¡]|\b(?:el|los|las|y|del|con|se|que|ha|he|han|fue|está|están|hecho|listo|todo|tu|su"
        r"|al|resultado)\b",
        r"""\bhe\ (?!leído|visto|encontrado|buscado|intentado|revisado)
          (?:\w+\ )?\w+(?:ado|ido|sto|cho)\b
        |^\W*ahora\b(?!\ (?:tengo|verific|ejecut|v[oa]|neces|pued|falta|prueb|entiend))
        |\b(?:exitosamente|con\ éxito|funcionando|sido\ \w+[ai]d[oa]s?)\b
        |\b(?:list[oa]s?|hecho|(?!encontr|le|busqu|intent|revis|pud|tambi|est|qu|porqu|aqu|as|all
        |ah|s|expliqu)\w+[éí]
        |(?:ha|han|he|hemos|está|están|fue|fueron|qued[aóa]n?|quedaron)\ (?:(?:ya|sido|todo
        |\w+mente)\ )*
          (?!negad|denegad|rechazad|leíd|vist|encontrad|buscad|revisad|intentad|pensad
          |pedid)\w+[ai]d[oa]s?\b
        |(?:completad|hech|terminad|finalizad|cerrad|registrad|iniciad|guardad|mejorad|añadid
        |restaurad|subid
        |enviad|corregid|actualizad|movid|añadid|cread|eliminad|resuelt|implementad|agregad|realizad
        |aplicad|cambiad|optimizad|solucionad|configurad|modificad)[oa]s?)\b""",
        r"\b(?:no|falta|denegad\w+|rechazad\w+|siento|falla|quedan?\ por|imposible"
        r"|pendientes?|casi|detuve|necesitamos)\b",
        r"\?|\b(?:si|avísame|necesito|voy|continuación|\w+ré)\b",
    ),
}


def spoken(text: str) -> Language:
    """Return the language with most marks, then most words for finished work; else English."""

    def marks(one: Language) -> tuple[int, int]:
        return len(one.marks.findall(text)), len(one.claims.findall(text))

    most = max(OTHERS.values(), key=marks)
    return most if marks(most) > (len(ENGLISH.marks.findall(text)), 0) else ENGLISH
