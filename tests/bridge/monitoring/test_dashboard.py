"""The dashboard shows all metrics, and no others."""

import json
import re
from pathlib import Path

from bridge.metrics import Metrics

FILE = Path(__file__).resolve().parents[3] / "deploy/grafana-dashboard.json"


def test_the_dashboard_and_the_metrics_agree() -> None:
    """Each metric is in a panel, and each panel uses existing metrics and labels."""
    families = {family.name: family for family in Metrics().registry.collect()}
    text = FILE.read_text("utf-8")
    queried = set(re.findall(r"\bbridge_[a-z0-9_]+", " ".join(expressions(text))))
    known = {re.sub(r"_(total|bucket|sum|count)$", "", each) for each in queried}

    assert families.keys() == known


def expressions(text: str) -> list[str]:
    panels = json.loads(text)["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def test_panels_do_not_overlap() -> None:
    panels = json.loads(FILE.read_text("utf-8"))["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]

    assert len(set(places)) == len(panels)
    assert all(target["legendFormat"] for panel in panels for target in panel["targets"])
