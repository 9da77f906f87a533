"""Independent parsers accept the sample results, including their Z segments."""

from pathlib import Path

import pytest
from hl7apy.consts import VALIDATION_LEVEL

from tests.conformance.parsers import agree, parsed, structure_errors

RESULTS = sorted((Path(__file__).parents[2] / "sample_messages" / "results").glob("*.hl7"))


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_results(file: Path) -> None:
    """The strict validation of hl7apy finds no error; python-hl7 reads the same fields."""
    raw = file.read_bytes()

    assert not structure_errors(raw, VALIDATION_LEVEL.STRICT)
    assert parsed(raw).name in ("ORU_R01", "MDM_T01", "MDM_T02")
    assert agree(raw)
