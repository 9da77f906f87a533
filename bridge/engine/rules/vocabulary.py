"""
Words for sides and for what only one sex has, in the languages of the application.

Word lists for the checks before signing; anything cleverer than a word is not here.
"""

import re

SPACED = {
    "left": (
        "left",
        "links|linke[rsnm]?|linksseitig\\w*|linkszijdig\\w*",
        "gauches?",
        "sinistr[aoie]|sin",
        "kiri",
        "lew(?:y|a|e|ej|ego|ym|ą)|lewostronn\\w*",
        "esquerd[ao]s?",
        "stâng\\w*|stang[aă]",
        "izquierd[ao]s?|izq",
    ),
    "right": (
        "right",
        "rechts|rechte[rsnm]?|rechtsseitig\\w*|rechtszijdig\\w*",
        "droite?s?",
        "destr[aoie]|dx",
        "kanan",
        "praw(?:y|a|e|ej|ego|ym|ą)|prawostronn\\w*",
        "direit[ao]s?",
        "drept|dreapt\\w*|drepte?",
        "derech[ao]s?|dcha",
    ),
    "both": (
        "bilateral\\w*|both",
        "beidseit\\w*|beide[rsnm]?|bds",
        "tweezijdig\\w*",
        "bilatéra\\w*|deux côtés",
        "obustronn\\w*|obydwu|obu",
        "ambos|ambas|entrambi|entrambe|ambele",
        "kedua",
    ),
}
_IDEOGRAPHIC = {
    "left": "左|왼쪽|좌측",
    "right": "右|오른쪽|우측",
    "both": "両側|两侧|兩側|双侧|雙側|左右|양측|양쪽",
}


def _side(name: str) -> re.Pattern[str]:
    words = "|".join(SPACED[name])
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)|{_IDEOGRAPHIC[name]}", re.IGNORECASE)


LEFT, RIGHT, BOTH_SIDES = _side("left"), _side("right"), _side("both")
LEFT_SHORT = re.compile(r"(?<!\w)(?:LT?|\(L\))(?!\w)")
RIGHT_SHORT = re.compile(r"(?<!\w)(?:RT?|\(R\))(?!\w)")
"""Abbreviations, in capitals only, and in an order's description only."""

MALE = re.compile(
    r"(?<!\w)(?:prostat\w*|próstat\w*|prostaat\w*|seminal vesicles?|samenblase\w*|"
    r"testi(?:s|cle|cles|cular|coli|coli|colo)|testícul\w*|testicul\w*|hoden\w*|teelbal\w*|"
    r"jąd(?:ro|ra|er)|scrot\w*|skrot\w*|escroto\w*|peni(?:s|le)|"
    r"he|his|him)(?!\w)"
    r"|前列腺|前立腺|攝護腺|睾丸|精巣|精囊|精嚢|陰囊|阴囊|전립선|고환|음낭",
    re.IGNORECASE,
)
FEMALE = re.compile(
    r"(?<!\w)(?:uter(?:us|ine|o|in|ul|ului|ina|ino)|utérus|útero|gebärmutter\w*|baarmoeder\w*|"
    r"macic\w*|rahim|endometri\w*|myometri\w*|"
    r"ovar(?:y|ies|ian|io|ios|ium|ien|e|ii|iche|ico)|ovaires?|ovári\w*|eierst[oö]c?k\w*|"
    r"jajnik\w*|indung telur|vagina\w*|fallopian|adnexal?|pregnan\w*|"
    r"she|her|hers)(?!\w)"
    r"|子宫|子宮|卵巢|卵巣|阴道|膣|陰道|자궁|난소|임신",
    re.IGNORECASE,
)
