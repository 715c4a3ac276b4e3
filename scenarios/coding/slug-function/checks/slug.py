"""Does src/slug.py make the names that the ticket asks for?"""

import re

from agenteval_test import call, known

mark, limit = known["mark"], known["limit"]
written = {"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "&": f" {known['ampersand']} "}


def right(text: str, most: int) -> str:
    words = re.findall("[a-z0-9]+", text.lower().translate(str.maketrans(written)))
    while len(words) > 1 and len(mark.join(words)) > most:
        words.pop()
    return mark.join(words)[:most] or known["empty"]


def slug(*arguments: object, **options: object) -> object:
    return call("src/slug.py", "slug", *arguments, **options)


titles = [
    "Plain title",
    "  Über Öl & Äpfel -- 3 Arten!  ",
    "R&D",
    "&",
    "Straße_nach-Süden.txt",
    "it's 10 o'clock",
    "...",
    "",
    "\n\t",
    "日本 tea",
    "MIXED Case 007",
    "one two three four five six seven eight nine ten eleven twelve",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "a Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "ß" * 60,
    "-_.-_.",
    f"{'x' * limit} y",
    f"{'x' * (limit - 2)} y z",
]
for title in titles:
    assert slug(title) == right(title, limit), title
    for most in (12, 19, 30):
        assert slug(title, most) == slug(title, limit=most) == right(title, most), (title, most)
