"""An idle service does not load libraries that only some commands need."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SELDOM = (
    "rich",
    "pygments",
    "greenlet",
    "nh3",
    "babel",
    "alembic",
    "PIL",
    "google.protobuf",
    "opentelemetry.sdk",
)
LOADS = f"""
import sys
from bridge.cli.service import _load_without_optional_libraries
_load_without_optional_libraries()
import bridge.runtime.service, bridge.engine.http.engine_application
import bridge.console.http.application
print([name for name in {SELDOM} if name in sys.modules])
"""


def test_loaded_libraries() -> None:
    """Libraries for terminals, exports and migrations are loaded on demand."""
    result = subprocess.run(
        [sys.executable, "-c", LOADS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stdout == "[]\n", result.stderr
