"""The wheel: two builds of one commit have the same hash; it has the licence and its commit."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path("bridge/engine/app/assets/built")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_builds_of_one_commit_have_the_same_hash(tmp_path: Path) -> None:
    """The folder, the umask and the files of an earlier build do not change the wheel."""
    first = _clone(tmp_path / "first")
    second = _clone(tmp_path / "another" / "place")
    for name in ("Page-of-an-earlier-build.js", "host-sdk/earlier.js"):
        left_behind = second / BUILT / name
        left_behind.parent.mkdir(parents=True, exist_ok=True)
        left_behind.write_text("old")

    wheel = _wheel(first, umask=0o022)

    assert _digest(wheel) == _digest(_wheel(second, umask=0o077))
    with zipfile.ZipFile(wheel) as archive:
        texts = {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist()
                 if name.endswith((".txt", "/LICENSE", "/METADATA"))}  # fmt: skip
    assert texts["LICENSE"] == (ROOT / "LICENSE").read_text("utf-8")
    assert "License-Expression: Apache-2.0\n" in texts["METADATA"]
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=first, check=True, capture_output=True, text=True).stdout
    assert texts["commit.txt"] == commit


def _clone(folder: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", "--local", str(ROOT), str(folder)], check=True)
    changed = subprocess.run(
        ["git", "diff", "--name-only", "HEAD", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, changed):
        source, target = ROOT / name, folder / name
        if source.exists():
            shutil.copy(source, target)
        else:
            target.unlink()
    shutil.copytree(
        ROOT / "web" / "node_modules",
        folder / "web" / "node_modules",
        symlinks=True,
        copy_function=os.link,
    )
    return folder


def _wheel(folder: Path, *, umask: int) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel"],
        cwd=folder, umask=umask, check=True, capture_output=True,
    )  # fmt: skip
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


def _digest(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_bills_of_materials_name_every_locked_package() -> None:
    """`make sbom` writes a bill for Python and for the web apps, each with all locked packages."""
    subprocess.run(["make", "sbom"], cwd=ROOT, check=True, capture_output=True)

    python, web = (_read(ROOT / "dist" / f"sbom-{item}.json") for item in ("python", "web"))

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
    return {
        "/".join(component[part] for part in ("group", "name") if part in component)
        for component in bill["components"]
    }
