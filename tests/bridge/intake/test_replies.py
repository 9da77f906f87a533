"""The acknowledgment matrix is one file: the code goes by it, the page shows it, the rules hold."""

from itertools import product
from pathlib import Path

import pytest

from bridge.intake.receive.acknowledgments import CONDITIONS, MATRIX, Owed, owed, owed_application
from mappings.hl7.header import peek
from mappings.hl7.tables import AckCode

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "acknowledgments.md"
OUTCOMES = ("AA", "AE", "AR")
ASKS = {"AL": OUTCOMES, "NE": (), "": (), "ER": ("AE", "AR"), "SU": ("AA",)}
EVERY = list(product(CONDITIONS, CONDITIONS, OUTCOMES))


def _header(accept: str, application: str) -> bytes:
    return f"MSH|^~\\&|A|B|C|D|20261121||ORM^O01|1|P|2.5.1|||{accept}|{application}".encode()


def test_the_matrix_is_whole() -> None:
    """Every pair of conditions with every outcome has its line, and nothing else has."""
    assert sorted(MATRIX) == sorted(EVERY)


@pytest.mark.parametrize(("accept", "application", "outcome"), EVERY)
def test_every_line_follows_the_standard(accept: str, application: str, outcome: str) -> None:
    """Original mode: the application's alone. Enhanced: each as asked, a refusal but once."""
    owes = owed(peek(_header(accept, application)), AckCode(outcome))
    if not accept and not application:
        assert owes == Owed(None, AckCode(outcome))
        return
    commit = outcome in ASKS[accept]
    told = outcome != "AA" and commit  # a message that was not taken never reaches the application
    wanted = outcome in ASKS[application] and not told
    expected = Owed(
        AckCode("C" + outcome[1]) if commit else None, AckCode(outcome) if wanted else None
    )
    assert owes == expected


@pytest.mark.parametrize(("accept", "application", "outcome"), EVERY)
def test_the_later_answer_is_the_applications(accept: str, application: str, outcome: str) -> None:
    """What follows a positive commit acknowledgment is asked for by MSH-16 alone."""
    later = owed_application(peek(_header(accept, application)), AckCode(outcome))
    asked = not (accept or application) or outcome in ASKS[application]
    assert later == (AckCode(outcome) if asked else None)


@pytest.mark.parametrize("odd", ["XX", "al", " AL ", "ALWAYS", "\u00e9"])
def test_a_value_outside_the_table_means_always(odd: str) -> None:
    """An acknowledgment too many is the smaller harm."""
    header = peek(_header(odd, "NE"))
    assert owed(header, AckCode.ACCEPT) == Owed(AckCode.COMMIT_ACCEPT, None)


def test_a_null_asks_for_nothing() -> None:
    """`""` in both is the original mode: one answer, and not two that nobody waits for."""
    header = peek(_header('""', '""'))
    assert not header.enhanced
    assert owed(header, AckCode.ACCEPT) == Owed(None, AckCode.ACCEPT)
    assert owed(peek(_header("AL", '""')), AckCode.ACCEPT) == Owed(AckCode.COMMIT_ACCEPT, None)


def test_the_page_shows_the_matrix() -> None:
    """`docs/reference/acknowledgments.md` says what the file says; else draw it anew."""
    page = PAGE.read_text("utf-8")
    for accept, application in product(CONDITIONS, CONDITIONS):
        cells = [MATRIX[accept, application, outcome].at_once.codes for outcome in OUTCOMES]
        shown = " | ".join(" then ".join(codes) or "nothing" for codes in cells)
        assert f"| {accept or 'empty'} | {application or 'empty'} | {shown} |\n" in page
