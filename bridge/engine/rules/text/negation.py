"""
Negation in short clinical sentences, after NegEx (Chapman 2001).

A trigger before the phrase ("no", "r/o") or after it ("is ruled out", ": none") denies it, unless
a terminator ("but", "there is") or the end of a clause is in between. Pseudo-negations ("no change
in", "without contrast") deny nothing. A phrase that "cannot be excluded" is not affirmed either.

The tables hold words of all languages of the application, as regular expressions. Where a word
means something else in another of these languages, a longer phrase is listed.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice

_STATE = (
    r"seen|identified|present|demonstrated|visuali[sz]ed|evident|detected|appreciated|noted|found|"
    r"observed|shown|suspected|suggested|confirmed|apparent|likely|visible|ruled out|excluded"
)

PSEUDO = (
    (
        r"(?:no|without)\s+(?:\w+\s+){0,2}(?:change|increase|decrease|improvement|worsening|"
        r"progression|resolution|growth|enlargement)s?"
    ),
    r"not\s+(?:\w+ly\s+)?(?:changed|improved|increased|decreased|resolved|only)",
    r"(?:no|without(?:\s+a)?)\s+(?:doubt|question)",
    r"(?:without|w/o)\s+(?:and\s+with\s+)?(?:\w+\s+){0,2}contrast",
    r"no\s+(?:comparisons?|priors?(?=\s*(?:$|[.,:]|available|stud)))",
    r"gram[- ]negative",
    r"(?:keine?|ohne)\s+(?:\w+\s+){0,2}(?:änderung|veränderung|befundänderung|zunahme|abnahme)",
    r"(?:ohne|sans|sin|senza|zonder|sem|bez|fără|tanpa)\s+(?:\w+\s+){0,2}[ck]ontrast\w*",
    (
        r"(?:pas de|sans|sin|senza|nessun|geen|sem)\s+(?:changement|cambios?|cambiamenti|"
        r"verandering|alteraç\w+|modification|variazioni)"
    ),
)
"""Phrases that look like a negation and deny nothing."""

BEFORE = (
    # English
    (
        r"no|not|never|without|w/o|nor|neither|none of|denie[sd]|denying|cannot|can't|isn't|"
        r"doesn't|free of|clear of|absence of|lack of|rather than|instead of|unlikely to|"
        r"(?:^|interval |previously )resolved|^unlikely|"
        r"resolution of|negatives?(?:\s+for)?(?=\s*:)|negative for|fails? to (?:show|reveal)"
    ),
    (
        r"r\s?/\s?o|rules?[- ]out(?: for)?|^ruled out|ruled out(?: for|(?=\s*:))|ruling out|"
        r"exclud(?:e|es|ing)|exclusion of|"
        r"(?:evaluate|eval|assess|check|screen|screening) for|query"
    ),
    # German
    r"kein\w*|ohne|nicht|weder|ausschlu(?:ss|ß)(?: von| einer?s?)?|auszuschließen|z\.\s?a\.",
    # French
    r"pas d['\u2019]|pas de|aucune?|sans|absence d['\u2019]|absence de|éliminer|exclure",
    # Spanish
    r"sin|ausencia de|descartar|niega|tampoco|ning[uú]n[oa]?",
    # Dutch
    r"geen|zonder|niet|uitsluiten|uit te sluiten",
    # Italian
    r"non (?:si|vi|evid\w*|segni|sono)|senza|assenza d[i']|nessun\w*|escludere",
    # Portuguese
    r"sem|não|nao|ausência de|nenhum\w*|afastar",
    # Polish
    r"brak|bez|nie|wykluczyć|wykluczenie|żadn\w*",
    # Romanian
    r"fără|nu (?:se|există|exista|sunt|este|prezintă)|absența|de exclus",
    # Indonesian
    r"tidak ada|tidak|tanpa|bukan|singkirkan",
)
"""Triggers before the denied phrase, in alphabetic scripts."""

BEFORE_IDEOGRAPHIC = r"未见|未見|未发现|未發現|没有|沒有|无|無(?!し)|排除|否认|否認"

AFTER = (
    # English
    (
        rf"(?:(?:is|are|was|were|be|been|seems?|appears?)\s+)?(?:not|no longer)\s+(?:\w+ly\s+)?"
        rf"(?:been\s+)?(?:{_STATE})"
    ),
    (
        r"(?:(?:is|are|was|were|be|been|has|have|seems?|appears?|now|also|can|cannot|could)\s+){0,4}"
        r"(?:\w+ly\s+)?(?:ruled[- ]out|r\s?/\s?o(?='d|\s*(?:$|[.,)]))|excluded|absent|"
        r"(?:unlikely|resolved|denied|negative)(?=\s*(?:$|[.,)]|and|on|by|since|at|in|now)))"
    ),
    r"(?:isn't|aren't|wasn't|weren't) (?:\w+ly )?(?:seen|identified|present|noted|visible)",
    # German
    (
        r"(?:ist |sind |wurden? |war |waren )?(?:\w+ )?(?:ausgeschlossen|auszuschließen|"
        r"nicht (?:\w+ )?(?:nachweisbar|nachgewiesen|erkennbar|abgrenzbar|vorhanden|gesehen|"
        r"sichtbar))"
    ),
    r"(?:lässt|lassen) sich (?:\w+ )?nicht \w+",
    # French
    (
        r"(?:est |sont |a été )?(?:exclue?s?|absente?s?|éliminée?s?|"
        r"non (?:vue?s?|visibles?|retrouvée?s?))"
    ),
    # Spanish, Portuguese, Italian, Romanian
    r"(?:es |está |ha sido |queda )?(?:descartad[oa]s?|ausentes?)|no se (?:observ|identific|v)\w*",
    r"(?:foi |está )?(?:excluíd[oa]s?|afastad[oa]s?|não (?:visualizad|observad|identificad)[oa]s?)",
    r"(?:è |è stata |sono )?(?:esclus[oaie]|assent[ei]|non (?:evident|visibil|rilevat)\w*)",
    r"(?:este |a fost )?(?:exclus[ăaei]?|absent[ăae]?)",
    # Dutch, Polish, Indonesian
    r"(?:is |zijn )?(?:uitgesloten|afwezig|niet (?:aantoonbaar|zichtbaar|aanwezig|gezien))",
    r"(?:jest |została? )?(?:wykluczon\w+|nieobecn\w+|nie (?:stwierdz|uwidoczni|występuj)\w*)",
    r"tidak (?:ada|tampak|terlihat|ditemukan)|disingkirkan",
)
"""Triggers after the denied phrase, in alphabetic scripts."""

AFTER_IDEOGRAPHIC = (
    r"(?:は|を|が|の(?:所見|像))?(?:なし|無し|無い|ない|認めない|認めず|認められない|みられない|"
    r"見られない|否定的?|除外)|(?:已|被)?(?:排除|除外|未见|未見|无|無)|"
    r"(?:은|는|이|가|의)?\s?(?:소견)?\s?(?:없음|없다|없습니다|없|배제|보이지 않)"
)

_ANSWER = (
    r"none|nil|no(?=\s*(?:$|[.,)\]]))|no (?:evidence|such|suspicious)\b|neg(?:ative)?|absent\w*|"
    rf"not (?:\w+ly )?(?:{_STATE})|nicht \w+|kein\w*(?=\s*(?:$|[.,]))|aucune?|non(?=\s*(?:$|[.,]))|"
    r"ningun[oa]|geen|nessun\w*|nenhum\w*|não(?=\s*(?:$|[.,]))|brak|absent[ăe]?|tidak ada|nihil|"
    r"なし|無し|無|无|没有|未见|없음|ø|0(?=\s*(?:$|[.,]))"
)
"""Answers that deny a label, as in `Nodule: none`."""

TERMINATORS = (
    (
        r"but|however|although|though|except(?: for)?|apart from|aside from|other than|besides|yet|"
        r"nevertheless|otherwise|there (?:is|are|was|were)|shows?|showed|demonstrates?|reveals?|"
        r"presents? with|presenting with|presented with|due to|because of|secondary to|caused by|"
        r"obscured by|known|history of|hx of|h/o|s/p|status post|consistent with|compatible with"
    ),
    r"aber|jedoch|außer|abgesehen von|hingegen|sondern|bei bekannte[rmn]",
    (
        r"mais|cependant|sauf|hormis|pero|salvo|excepto|aunque|maar|echter|behalve|però|tranne|"
        r"eccetto|porém|exceto|ale|jednak|oprócz|dar|însă|cu excepția|tetapi|namun|kecuali"
    ),
)
"""Words that end the scope of a trigger."""

TERMINATORS_IDEOGRAPHIC = r"但|可见|可見|以外|しかし|を認める|があり|지만|외에"

_SENTENCE = re.compile(
    r"(?:(?<=[.!?])(?<!^\?)(?<!\s\?)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bz\.b\.)(?<!\bvs\.)(?<!\bapprox\.)"
    r"(?<!\bz\.a\.)(?<!\bz\. a\.)\s+|(?<=[。！？])\s*)|[\n;；]+",  # noqa: RUF001  # full-width marks
    re.IGNORECASE,
)


def _words(*tables: str) -> str:
    return rf"(?<!\w)(?:{'|'.join(tables)})(?!\w)"


def _compiled(words: Iterable[str], ideographic: str) -> re.Pattern[str]:
    return re.compile(f"{_words(*words)}|{ideographic}")


_PSEUDO = re.compile(_words(*PSEUDO))
_BEFORE = re.compile(
    rf"(?<!\w)(?:{'|'.join(BEFORE)})(?:(?<=['\u2019])|(?!\w))|{BEFORE_IDEOGRAPHIC}|\?\s?(?=\w*$)"
)
_AFTER = _compiled(AFTER, AFTER_IDEOGRAPHIC)
_TERMINATOR = _compiled(TERMINATORS, TERMINATORS_IDEOGRAPHIC)
_LABEL = re.compile(
    r"(?:\s*\([^()]*\))?(?:\s+\w+){0,4}\s*(?:[:=：]|\s[-\u2013\u2014])\s*[\[(]?"  # noqa: RUF001
    rf"(?:(?:{_ANSWER})(?!\w))"
)
_PREDICATE = re.compile(
    r"(?<!\w)(?:is|are|was|were|seen|noted|identified|present|detected|evident|found|ist|sind|"
    r"est|sont|es|son|è|sono|jest|są)(?!\w)"
)
_STATED = re.compile(
    r"\s(?:\w+\s){0,4}(?:(?:is|are)\s(?:\w+\s)?(?:seen|noted|identified)|present|persists?)\b"
)
"""A statement after a phrase that the phrase is present."""
_OTHER_FINDING = re.compile(
    r"(?<!\w)(?:is|are|was|were|present|noted|with|without|no|not|shows?|causing|mit|ohne|avec|"
    r"sans|con|sin|com|sem|met|z|cu)(?!\w)|[:：]"  # noqa: RUF001
)
_CONJUNCTION = re.compile(
    r"(?<!\w)(?:and|or|und|oder|et|ou|y|o|e|i|lub|en|of|dan|atau|sau|și)(?!\w)"
)
_MAX_DISTANCE = 8
"""Maximum words between a phrase and a trigger after it."""
_REACH = 1000
"""Characters before and after a phrase that are examined."""
_MAX_OCCURRENCES = 200
"""Occurrences of a phrase that are examined; later ones are ignored."""


def affirms(sentences: Iterable[str], phrase: str) -> bool:
    """True if any of the sentences (`split`) affirms a phrase."""
    wanted = _phrase_pattern(phrase.casefold())
    occurrences = (
        (sentence, found.start(), found.end())
        for sentence in sentences
        for found in wanted.finditer(sentence)
    )
    return any(not is_denied(*occurrence) for occurrence in islice(occurrences, _MAX_OCCURRENCES))


def split(text: str) -> tuple[str, ...]:
    """Return the folded sentences of a text, with pseudo-negations masked."""
    folded = (" ".join(part.casefold().split()) for part in _SENTENCE.split(text))
    return tuple(_PSEUDO.sub(lambda found: "·" * len(found[0]), part) for part in folded if part)


@lru_cache(maxsize=4096)
def _phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern of whole words; scripts without spaces have no word boundaries."""
    spaced = [end.isalnum() and not is_unspaced(end) for end in (phrase[:1], phrase[-1:])]
    before, after = (r"(?<!\w)" if spaced[0] else ""), (r"(?!\w)" if spaced[1] else "")
    inner = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(f"{before}{inner}{after}")


def is_unspaced(text: str) -> bool:
    """True if a text has a character of a script without spaces."""
    return any(
        "\u3040" <= character <= "\u9fff" or "\uac00" <= character <= "\ud7a3" for character in text
    )


def is_denied(sentence: str, start: int, end: int) -> bool:
    """True if a sentence (`split`) denies the phrase between two positions."""
    following = sentence[end : end + _REACH]
    return (
        _denied_before(sentence[max(0, start - _REACH) : start], following)
        or following.startswith("?")
        or _LABEL.match(sentence, end) is not None
        or _denied_after(following)
    )


def _denied_before(text: str, following: str) -> bool:
    stops = [found.end() for found in _TERMINATOR.finditer(text)]
    governed = text[stops[-1] :] if stops else text
    stated = _STATED.match(following) is not None
    return any(
        not _is_closed(found[0], governed[found.end() :], stated=stated)
        for found in _BEFORE.finditer(governed)
    )


def _is_closed(trigger: str, between: str, *, stated: bool) -> bool:
    """True if a trigger's clause has ended: `no fracture is seen, …`, `no fever: …`."""
    clause, comma, last = between.rpartition(",")
    if comma and (trigger == "not" or _PREDICATE.search(clause)):
        return True
    if comma and stated and not _CONJUNCTION.search(last):
        return True  # `no effusion, pneumonia present`
    return ":" in between.lstrip().removeprefix(":")


def _denied_after(text: str) -> bool:
    stop = _TERMINATOR.search(text)
    found = _AFTER.search(text, 0, stop.start() if stop else len(text))
    if found is None:
        return False
    between = text[: found.start()]
    if len(between.split()) > _MAX_DISTANCE or _OTHER_FINDING.search(between):
        return False
    _, comma, last = between.rpartition(",")
    return not comma or not last.strip() or _CONJUNCTION.search(last) is not None
