"""The deployment lock has the versions that the tests use, and no test tools."""

import json
import re
import tomllib
from pathlib import Path

from bridge.metrics import Metrics

ROOT = Path(__file__).parents[3]
PINNED = re.compile(r"^([a-z0-9_.-]+)==([^ ;]+)", re.MULTILINE)


def pins(file: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / file).read_text("utf-8")))


def plain(requirement: str) -> str:
    name = re.split(r"[^A-Za-z0-9_.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def test_runtime_dependencies_are_locked() -> None:
    """The lock has all dependencies of the package and its extras, in the versions of the tests."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    required = [*project["project"]["dependencies"]]
    for extra in project["project"]["optional-dependencies"].values():
        required += extra
    serving, tested = pins("deploy/serving.lock"), pins("requirements.lock")
    assert {plain(item) for item in required} <= serving.keys()
    assert {
        name: serving[name] for name in serving.keys() & tested.keys()
    }.items() <= tested.items()
    assert not {"pytest", "mypy", "playwright"} & serving.keys()


def test_every_pin_has_a_digest() -> None:
    """The index cannot deliver another file for a version."""
    text = (ROOT / "deploy/serving.lock").read_text("utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text)
    assert all("--hash=sha256:" in entry for entry in entries if PINNED.match(entry))
    assert "://" not in text


FILE = Path(__file__).resolve().parents[3] / "deploy/grafana-dashboard.json"


def test_the_dashboard_and_the_metrics_agree() -> None:
    """Each metric is in a panel, and each panel uses existing metrics and labels."""
    families = {family.name: family for family in Metrics().registry.collect()}
    text = FILE.read_text("utf-8")
    queried = set(re.findall(r"\bbridge_[a-z0-9_]+", " ".join(expressions(text))))
    known = {re.sub(r"_(total|bucket|sum|count)$", "", item) for item in queried}

    assert families.keys() == known


def expressions(text: str) -> list[str]:
    panels = json.loads(text)["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_panels_do_not_overlap() -> None:
    panels = json.loads(FILE.read_text("utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]

    assert len(set(places)) == len(panels)
    assert all(target["legendFormat"] for panel in panels for target in panel["targets"])
