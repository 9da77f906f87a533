"""The dashboard file shows what is counted, and nothing that is not."""

import json
import re
from pathlib import Path

from bridge.metrics import Metrics

FILE = Path(__file__).resolve().parents[3] / "deploy/grafana-dashboard.json"


def test_the_dashboard_and_the_metrics_agree() -> None:
    """Every family of ours is in a panel, every panel asks for families and labels there are."""
    families = {family.name: family for family in Metrics().registry.collect()}
    text = FILE.read_text("utf-8")
    asked = set(re.findall(r"\bbridge_[a-z0-9_]+", " ".join(expressions(text))))
    known = {re.sub(r"_(total|bucket|sum|count)$", "", each) for each in asked}

    assert families.keys() == known


def expressions(text: str) -> list[str]:
    """The queries of all panels."""
    panels = json.loads(text)["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_the_panels_have_places_of_their_own() -> None:
    """No two at one place, each with a legend."""
    panels = json.loads(FILE.read_text("utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]

    assert len(set(places)) == len(panels)
    assert all(target["legendFormat"] for panel in panels for target in panel["targets"])
