"""Affirmed and negated phrases of a text."""

import pytest

from bridge.engine.rules.text.billing import CodeRow, CodeSystem, derive_codes
from bridge.engine.rules.text.negation import affirms, split
from tests.calls import counted

NEGATED = {
    "pneumonia": (
        "No pneumonia.",
        "r/o pneumonia",
        "R/O: pneumonia",
        "cough, fever, r/o pneumonia",
        "Rule out pneumonia",
        "rule-out pneumonia",
        "Pneumonia is ruled out.",
        "Pneumonia was effectively ruled out by CT.",
        "Pneumonia has been ruled out",
        "Pneumonia: none",
        "PNEUMONIA: NO",
        "Pneumonia (right): negative.",
        "Pneumonia in the lower lobes: not seen",
        "Pneumonia - absent",
        "Pneumonia: [none]",
        "Pneumonia, ruled out.",
        "Pneumonia not seen",
        "Pneumonia is not clearly identified.",
        "Pneumonia is unlikely",
        "Pneumonia in the left lower lobe is excluded.",
        "Pneumonia, effusion and abscess are ruled out.",
        "Pneumonia cannot be excluded",
        "Pneumonia is not excluded",
        "Cannot exclude pneumonia",
        "Pneumonia has resolved.",
        "Interval resolution of the pneumonia",
        "No evidence of pneumonia",
        "No pleural effusion, consolidation, or pneumonia.",
        "There is no focal consolidation to suggest pneumonia",
        "Negative for pneumonia",
        "Negative for: effusion, pneumonia",
        "Pertinent negatives: pneumonia, effusion",
        "Without signs of pneumonia",
        "The patient denies pneumonia",
        "Neither effusion nor pneumonia",
        "The lungs are free of pneumonia",
        "Atelectasis rather than pneumonia",
        "Evaluate for pneumonia",
        "? pneumonia",
        "?pneumonia",
        "No findings, e.g. pneumonia",
        "Fracture, but no pneumonia",
        "No\u00a0pneumonia",
        "Pneumonia isn't seen",
        "Pneumonia no longer seen",
        "Ruled out: pneumonia",
        "Ruled out pneumonia",
        "Resolved pneumonia",
        "Pneumonia?",
        "No effusion, pneumonia, or fracture is seen",
        "No effusion or pneumonia is present",
    ),
    "pneumonie": (
        "Keine Pneumonie.",
        "Pneumonie ausgeschlossen",
        "Eine Pneumonie ist nicht nachweisbar.",
        "Ausschluss Pneumonie",
        "Eine Pneumonie lässt sich nicht nachweisen",
        "Pas de pneumonie",
        "Absence de pneumonie.",
        "Pneumonie exclue",
        "Geen pneumonie",
        "Pneumonie uitgesloten",
        "Pneumonie: keine",
        "Fără pneumonie",
        "Nu se evidențiază pneumonie",
    ),
    "épanchement": ("Pas d'épanchement", "Pas d’épanchement", "Absence d'épanchement"),  # noqa: RUF001
    "neumonía": (
        "Sin neumonía",
        "No se observa neumonía",
        "Neumonía descartada",
        "Descartar neumonía",
    ),
    "polmonite": ("Non si osserva polmonite", "Polmonite esclusa", "Senza polmonite"),
    "pneumonia aguda": (
        "Sem pneumonia aguda",
        "Não há pneumonia aguda",
        "Pneumonia aguda excluída",
    ),
    "zapalenie": ("Brak cech zapalenie", "Nie stwierdza się zapalenie", "Zapalenie wykluczone"),
    "efusi": ("Tidak ada efusi", "Efusi tidak tampak"),
    "肺炎": ("肺炎なし。", "肺炎は認めない", "肺炎を認めず", "未见肺炎", "无肺炎。", "肺炎已排除"),
    "폐렴": ("폐렴 없음", "폐렴은 없습니다", "폐렴 소견 없음"),
}
AFFIRMED = {
    "pneumonia": (
        "Pneumonia.",
        "Pneumonia without effusion.",
        "Pneumonia, no effusion.",
        "Pneumonia in the right lobe. No effusion.",
        "No effusion. Pneumonia",
        "No effusion; pneumonia",
        "No effusion, but pneumonia in the left lobe",
        "No effusion, however there is pneumonia.",
        "There is no effusion, there is pneumonia",
        "No fracture is seen, pneumonia is present",
        "No abnormality other than pneumonia",
        "No change in the pneumonia",
        "No significant interval change of pneumonia",
        "Pneumonia: no change",
        "Pneumonia: no calcification",
        "Pneumonia is not significantly changed.",
        "Pneumonia is present, fracture is ruled out",
        "Pneumonia in the right lobe, fracture ruled out",
        "CT chest without contrast: pneumonia",
        "CT without IV contrast shows pneumonia",
        "Not only effusion, also pneumonia",
        "Without doubt pneumonia",
        "Gram-negative pneumonia",
        "Pneumonia: yes",
        "r/o fracture, known pneumonia",
        "No pneumonia in 2020.\nNow pneumonia of the left lobe",
        "Effusion is absent although pneumonia persists",
        "Pneumonia with effusion ruled out",
        "Effusion ruled out, pneumonia present",
        "Effusion resolved, pneumonia persists",
        "No effusion, pneumonia present",
        "Fracture not displaced, pneumonia",
        "Effusion unlikely, pneumonia",
    ),
    "fracture": ("Fracture not displaced.", "Non-displaced fracture", "Fracture: non-displaced"),
    "pneumonie": ("Pneumonie ohne Erguss", "Kein Erguss, jedoch Pneumonie", "Nu pneumonie links"),
    "肺炎": ("肺炎を認める", "右下葉に肺炎がある", "右肺肺炎。", "无胸水，但有肺炎"),  # noqa: RUF001
    "폐렴": ("폐렴이 있음",),
}


@pytest.mark.parametrize(
    ("phrase", "text"), [(phrase, text) for phrase, texts in NEGATED.items() for text in texts]
)
def test_a_negated_phrase_is_not_affirmed(phrase: str, text: str) -> None:
    """A phrase that is denied, questioned or cannot be excluded is not affirmed."""
    assert not affirms(split(text), phrase)


@pytest.mark.parametrize(
    ("phrase", "text"), [(phrase, text) for phrase, texts in AFFIRMED.items() for text in texts]
)
def test_an_affirmed_phrase(phrase: str, text: str) -> None:
    """The negation of another phrase has no effect."""
    assert affirms(split(text), phrase)


def test_only_affirmed_phrases_have_codes() -> None:
    """In the reason for the exam and in the report; each phrase is decided separately."""
    rows = [
        CodeRow(CodeSystem.ICD10, match, code, "")
        for match, code in (("pneumonia", "J18.9"), ("nodule", "R91.1"), ("cough", "R05.9"))
    ]
    reason = {"ReasonForExam": "Cough, r/o pneumonia"}

    def codes(content: str) -> list[str]:
        return [code["Code"] for code in derive_codes(rows, [reason], content)["icd10"]]

    assert codes("Pneumonia is ruled out. Nodule: none") == ["R05.9"]
    assert codes("Nodule without pneumonia.") == ["R91.1", "R05.9"]


def test_long_lines_are_read() -> None:
    """The cost grows in proportion to the text, also in one line."""
    line = "no not without is ruled out, " * 2000
    assert not affirms(split(f"{line} pneumonia" * 20), "fracture")
    assert not affirms(split(f"no {'cough, ' * 50}" + "no pneumonia, " * 2000), "pneumonia")


def phrase(match: str, code: str) -> CodeRow:
    return CodeRow(CodeSystem.ICD10, match, code, "")


def codes(rows: list[CodeRow], content: str) -> list[str]:
    """Return the ICD-10 codes of a report."""
    return [
        code["Code"] for code in derive_codes(rows, [{"ReasonForExam": "Cough"}], content)["icd10"]
    ]


@pytest.mark.parametrize(
    ("match", "content", "found"),
    [
        ("lung mass", "A LUNG MASS of 8 mm.", True),
        ("cough", "Clear.", True),
        ("lung", "Lungs are clear.", False),
        ("mass", "A lung mass", True),
        ("lung mass", "lung  mass", True),
        ("lung mass", "lung mass-like", True),
        ("lung mass", "No lung mass.", False),
        ("(old) scar", "an (old) scar", True),
        ("(old) scar", "an x(old) scar", False),
        ("C++", "C++ and", True),
        ("C++", "C++x", False),
        ("straße", "STRASSE", True),
        ("\u80ba", "\u80ba\u708e", True),
    ],
)
def test_a_phrase_occurs_as_whole_words(match: str, content: str, *, found: bool) -> None:
    """Case and spaces are ignored; a negated phrase does not count; CJK text has no word breaks."""
    assert codes([phrase(match, "X1")], content) == ["X1"] * found


def test_the_cost_does_not_grow_with_rows_times_text() -> None:
    """2,000 phrases and a long report: the number of calls grows with their sum."""
    rows = [phrase(f"opacity {number}", f"R{number}") for number in range(2000)]
    content = "opacity of the lung. " * 2000 + "opacity 77"
    found, calls = counted(lambda: codes(rows, content))
    assert found == ["R77"]
    assert calls < 1_000_000
