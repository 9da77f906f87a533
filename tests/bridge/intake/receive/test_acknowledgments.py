"""The acknowledgment matrix: code, page and rules match the file."""

from itertools import product
from pathlib import Path

import pytest

from bridge.intake.receive.acknowledgments import (
    CONDITIONS,
    MATRIX,
    OwedCodes,
    deferred_application_code,
    owed_codes,
)
from mappings.hl7.header import peek
from mappings.hl7.tables import AckCode

PAGE = Path(__file__).resolve().parents[4] / "docs" / "reference" / "acknowledgments.md"
OUTCOMES = ("AA", "AE", "AR")
ASKS = {"AL": OUTCOMES, "NE": (), "": (), "ER": ("AE", "AR"), "SU": ("AA",)}
EVERY = list(product(CONDITIONS, CONDITIONS, OUTCOMES))


def _header(accept: str, application: str) -> bytes:
    return f"MSH|^~\\&|A|B|C|D|20261121||ORM^O01|1|P|2.5.1|||{accept}|{application}".encode()


def test_the_matrix_is_complete() -> None:
    """The file has one line for each pair of conditions and outcome."""
    assert sorted(MATRIX) == sorted(EVERY)


@pytest.mark.parametrize(("accept", "application", "outcome"), EVERY)
def test_every_line_follows_the_standard(accept: str, application: str, outcome: str) -> None:
    """Original mode has one application ACK. Enhanced mode has each as requested."""
    owes = owed_codes(peek(_header(accept, application)), AckCode(outcome))
    if not accept and not application:
        assert owes == OwedCodes(None, AckCode(outcome))
        return
    commit = outcome in ASKS[accept]
    is_refused = outcome != "AA" and commit  # a refused message does not reach the application
    wanted = outcome in ASKS[application] and not is_refused
    expected = OwedCodes(
        AckCode("C" + outcome[1]) if commit else None, AckCode(outcome) if wanted else None
    )
    assert owes == expected


@pytest.mark.parametrize(("accept", "application", "outcome"), EVERY)
def test_the_later_reply_follows_msh_16(accept: str, application: str, outcome: str) -> None:
    """MSH-16 alone decides what follows a positive commit acknowledgment."""
    later = deferred_application_code(peek(_header(accept, application)), AckCode(outcome))
    requested = not (accept or application) or outcome in ASKS[application]
    assert later == (AckCode(outcome) if requested else None)


@pytest.mark.parametrize("odd", ["XX", "al", " AL ", "ALWAYS", "\u00e9"])
def test_a_value_outside_the_table_means_always(odd: str) -> None:
    """An unknown condition means AL."""
    header = peek(_header(odd, "NE"))
    assert owed_codes(header, AckCode.ACCEPT) == OwedCodes(AckCode.COMMIT_ACCEPT, None)


def test_a_null_is_the_original_mode() -> None:
    """`""` in both fields is the original mode: one reply, and not two."""
    header = peek(_header('""', '""'))
    assert not header.enhanced
    assert owed_codes(header, AckCode.ACCEPT) == OwedCodes(None, AckCode.ACCEPT)
    assert owed_codes(peek(_header("AL", '""')), AckCode.ACCEPT) == OwedCodes(
        AckCode.COMMIT_ACCEPT, None
    )


def test_the_page_shows_the_matrix() -> None:
    """`docs/reference/acknowledgments.md` equals the file."""
    page = PAGE.read_text("utf-8")
    for accept, application in product(CONDITIONS, CONDITIONS):
        cells = [MATRIX[accept, application, outcome].at_once.codes for outcome in OUTCOMES]
        shown = " | ".join(" then ".join(codes) or "nothing" for codes in cells)
        assert f"| {accept or 'empty'} | {application or 'empty'} | {shown} |\n" in page
