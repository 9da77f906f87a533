"""
The fuzz targets in every test run: half a minute under atheris, and under hypothesis.

`make fuzz SECONDS=600` runs them for longer.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import DICTIONARY, FOUND, TARGETS, seeds

ROOT = Path(__file__).parents[2]
SECONDS = 30 // len(TARGETS)
_pieces = st.sampled_from([*DICTIONARY, b"|", b"^", b"~", b"&", b"\r", b"1", b"A"])
_bytes = st.lists(_pieces | st.binary(max_size=4), max_size=40).map(b"".join)
_likely = st.builds(lambda seed, tail: seed[: len(seed) - len(tail)] + tail,
                    st.sampled_from(list(seeds())), _bytes)  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("atheris") is None, reason="atheris has wheels only for Linux on x86-64"
)
@pytest.mark.parametrize("target", TARGETS)
def test_under_atheris(target: str) -> None:
    """Coverage-guided fuzzing finds no crash, no hang, and no use of more than 2 GB."""
    command = [sys.executable, "-m", "tests.fuzz", str(SECONDS), target]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr[-3000:]
    assert "number_of_executed_units" in done.stderr


@pytest.mark.parametrize("target", TARGETS)
@given(raw=_bytes | _likely)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_under_hypothesis(target: str, raw: bytes) -> None:
    """A target holds for inputs of likely pieces and samples."""
    TARGETS[target](raw)


@pytest.mark.parametrize("target", TARGETS)
def test_on_seeds(target: str) -> None:
    """A target holds for the samples, framed and bare."""
    for seed in seeds():
        TARGETS[target](seed)


@pytest.mark.parametrize("found", FOUND, ids=range(len(FOUND)))
def test_past_failures(found: bytes) -> None:
    """Every target holds for the inputs of past failures."""
    for target in TARGETS.values():
        target(found)
