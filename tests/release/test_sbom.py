"""The bills of materials of all shipped packages, in CycloneDX."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_bills_of_materials_name_every_locked_package() -> None:
    """`make sbom` writes a bill for Python and for the web apps, each with all locked packages."""
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)

    python, web = (_read(ROOT / "dist" / f"sbom-{each}.json") for each in ("python", "web"))

    lock = (ROOT / "deploy" / "serving.lock").read_text("utf-8")
    assert _names(python) == set(re.findall(r"^([A-Za-z0-9_.-]+)==", lock, re.MULTILINE))
    packages = json.loads((ROOT / "web" / "package-lock.json").read_text("utf-8"))["packages"]
    locked = {path.rpartition("node_modules/")[2] for path in packages if path}
    assert _names(web) == locked


def _read(file: Path) -> dict[str, Any]:
    bill: dict[str, Any] = json.loads(file.read_text("utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    return bill


def _names(bill: dict[str, Any]) -> set[str]:
    return {f"{each['group']}/{each['name']}" if "group" in each else each["name"]
            for each in bill["components"]}  # fmt: skip
