"""Drafts in the database: saved with mistakes, activated without."""

from dataclasses import replace
from pathlib import Path

import pytest

from bridge.admin.definitions.activation import Author
from bridge.admin.definitions.drafts import DraftConflict, NoDraft, activate_draft, save
from bridge.store.databases import bridge_database
from bridge.store.records import mapping_versions
from bridge.store.records.mapping_versions import MappingDraft
from config import load
from mappings.language.diagnostics import MappingErrors
from tests.databases import create_migrated_home

ANN = Author("ann", 1_000, "a new sender")


def test_a_draft_becomes_a_version(tmp_path: Path) -> None:
    """A draft with a mistake is saved, not activated. Once fixed it is activated and removed."""
    home = tmp_path / "home"
    create_migrated_home(home)
    settings = load(home)
    bad = {"orders.yaml": "kind: orders\ntags: {PatientMRN: PDI-3}\n"}
    shipped = (home / "mappings" / "orders.yaml").read_text()
    good = {"orders.yaml": shipped.replace("PlacerField2: OBR-19", "PlacerField2: OBR-18")}
    with bridge_database(home) as database:
        draft = MappingDraft("orders", "ann", bad, "", 0, "", 1_000)
        saved, found = save(settings, database, draft)
        assert any("did you mean" in str(issue) for issue in found.issues)
        with pytest.raises(MappingErrors):
            activate_draft(settings, database, "orders", ANN)
        with pytest.raises(DraftConflict):
            save(settings, database, replace(draft, sources=good))
        _, checked = save(settings, database, replace(saved, sources=good))
        assert checked.version
        assert activate_draft(settings, database, "orders", ANN).version == checked.version
        with database.read() as connection:
            assert mapping_versions.history(connection, "orders")[0].reason == "a new sender"
        with pytest.raises(NoDraft):
            activate_draft(settings, database, "orders", ANN)
