"""
Word lists for sections, body regions, sides and sexes, in the languages of the app.

The region of a text is the first region of the table whose words the text contains.
"""

import re
from collections.abc import Mapping

FINDINGS = frozenset(
    [
        "findings",
        "befund",
        "befunde",
        "résultats",
        "hallazgos",
        "bevindingen",
        "reperti",
        "achados",
        "rezultate",
        "wynik",
        "temuan",
        "所見",
        "所见",
        "檢查所見",
        "检查所见",
        "소견",
    ]
)
IMPRESSION = frozenset(
    [
        "impression",
        "conclusion",
        "opinion",
        "beurteilung",
        "impresión",
        "conclusie",
        "conclusioni",
        "impressão",
        "concluzie",
        "wnioski",
        "kesan",
        "診断",
        "诊断意见",
        "印象",
        "결론",
    ]
)
ANATOMY: Mapping[str, tuple[str, ...]] = {
    "lungs": ("lung", "lobe", "pulmonary", "nodule", "airspace", "consolidation", "atelectasis"),
    "pleura": ("pleura", "pleural", "effusion", "pneumothorax"),
    "heart": ("heart", "cardiac", "pericardial", "cardiomegaly", "aorta", "coronary"),
    "mediastinum": ("mediastinum", "mediastinal", "hilar", "hilum", "thyroid"),
    "bones": ("bone", "rib", "fracture", "vertebra", "vertebral", "osseous", "spine"),
    "liver": ("liver", "hepatic"),
    "gallbladder": ("gallbladder", "gallstone", "biliary", "bile"),
    "pancreas": ("pancreas", "pancreatic"),
    "spleen": ("spleen", "splenic"),
    "kidneys": ("kidney", "renal", "ureter", "hydronephrosis"),
    "bowel": ("bowel", "colon", "appendix", "stomach", "intestine"),
    "brain": ("brain", "cerebral", "intracranial", "infarct", "hemorrhage", "ventricle"),
    "soft tissues": ("soft tissue", "subcutaneous", "muscle"),
}
_OTHER_LANGUAGES: Mapping[str, str] = {
    "lungs": r"lungen?|poumons?|pulm(?:ón|ones|ão|ões)|polmon\w+|płuc\w*|plămân\w*|longen|paru",
    "pleura": r"\w*erg[uü]ss\w*|plèvre|épanchement\w*|derrame|versamento|wysięk\w*|opłucn\w*",
    "heart": r"herz\w*|c(?:œ|oe)ur|corazón|cuore|coração|serc\w*|inim\w+|hart|jantung",
    "liver": r"leber\w*|foie|hígado|fegato|fígado|wątrob\w*|ficat\w*|lever|hati",
    "kidneys": r"nieren?|reins?|riñón|riñones|reni|rins|nerk\w*|rinich\w*|ginjal",
    "spleen": r"milz\w*|rate|bazo|milza|baço|śledzion\w*|splin\w*|milt|limpa",
    "brain": r"gehirn\w*|hirn\w*|cerveau|cerebro|cervello|cérebro|mózg\w*|creier\w*|hersenen|otak",
}
_UNSPACED: Mapping[str, str] = {
    "lungs": "肺|폐",
    "pleura": "胸膜|胸水|胸腔积液|胸腔積液|흉수|흉막",
    "heart": "心臓|心脏|心臟|심장",
    "liver": "肝",
    "kidneys": "腎|肾|신장",
    "spleen": "脾|비장",
    "brain": "脳|脑|腦|뇌",
}


def _clues(region: str, clues: tuple[str, ...]) -> re.Pattern[str]:
    english = "|".join(f"{re.escape(clue)}(?:s|es)?" for clue in (region, *clues))
    words = "|".join(filter(None, (english, _OTHER_LANGUAGES.get(region))))
    unspaced = f"|{_UNSPACED[region]}" if region in _UNSPACED else ""
    return re.compile(rf"(?<!\w)(?:{words})(?!\w){unspaced}")


CLUES: Mapping[str, re.Pattern[str]] = {
    region: _clues(region, clues) for region, clues in ANATOMY.items()
}


def region_of(text: str) -> str | None:
    """Return the region of the body that a text names, None for none."""
    words = text.casefold()
    return next((region for region, clues in CLUES.items() if clues.search(words)), None)


_SPACED = {
    "left": (
        "left(?:sided|ward)?",
        "link(?:s\\w*|e(?:[rsnm]\\w*)?)",  # also Linkerknie, linksseitig; not linked
        "venstre\\w*|vänster\\w*",
        "gauches?",
        "sinistr[aoie]|sin",
        "kiri",
        "lew(?:y|a|e|ej|ego|ym|ą)|lewostronn\\w*",
        "esquerd[ao]s?",
        "stâng\\w*|stang[aă]",
        "izquierd[ao]s?|izq",
    ),
    "right": (
        "right(?:sided|ward)?",
        "recht(?:s(?!treeks)\\w*|e(?!ns\\b)(?:[rsnm]\\w*)?)",  # also Rechterschulter; not Rechteck
        "høyre\\w*|højre\\w*|höger\\w*",
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
    words = "|".join(_SPACED[name])
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
