"""The sites of listeners, which decide who may see and pause them."""

from pathlib import Path

from bridge.active_settings import file_sources
from bridge.admin.channel_operations import channel_states
from bridge.admin.definitions.activation import Author, activate
from bridge.store import databases
from bridge.store.database import Database
from config import Settings, load
from config.sections import ChannelKind
from tests.databases import create_migrated_home

SETTINGS = """
[http]
bind = "127.0.0.1:8999"
[[listener]]
name = "both"
bind = "127.0.0.1:2599"
site = "SITE1"
[[listener]]
name = "patients"
bind = "127.0.0.1:2598"
site = "SITE1"
mappings = ["patients"]
[[listener]]
name = "none"
bind = "127.0.0.1:2597"
mappings = ["patients"]
"""


def test_a_listener_whose_messages_name_the_site_serves_all_sites(tmp_path: Path) -> None:
    """Its `site` is only a default then. The active version counts, not the file."""
    home = tmp_path / "home"
    create_migrated_home(home)
    (home / "bridge.toml").write_text(SETTINGS, "utf-8")
    settings = load(home)
    database = databases.open_bridge_database(settings)
    databases.migrate_bridge(database)
    try:
        own = {"both": ["SITE1"], "patients": ["SITE1"], "none": []}
        assert sites(settings, database) == own
        orders = home / "mappings" / "orders.yaml"
        fixed = orders.read_text("utf-8")
        named = fixed.replace(
            "\n  SiteID: {default: listener}", "\n  SiteID: {from: MSH-4.1, default: listener}"
        )
        assert named != fixed
        orders.write_text(named, "utf-8")
        author = Author("ann", 1)
        activate(settings, database, [("orders", file_sources(settings)("orders"))], author)
        orders.write_text(fixed, "utf-8")
        assert sites(settings, database) == {**own, "both": ["*"]}
    finally:
        database.dispose()


def sites(settings: Settings, database: Database) -> dict[str, list[str]]:
    found = channel_states(settings, database, ChannelKind.LISTENER, 1)
    return {row["name"]: row["sites"] for row in found}
