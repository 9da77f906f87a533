"""Each command that changes data or shows patient data writes one audit event with its target."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bridge.store.database import Database
from bridge.store.databases import bridge_database
from tests.bridge.cli.home import Home

_MESSAGE = text("""
    INSERT INTO message (received_at, listener, identity, digest, edition, message_type, mapping,
        mapping_version, flags, ack_code, acknowledgment, error_code, error_place, state, detail)
    VALUES (1700000000000, 'orders', 1, 1, 0, 'ORM^O01', 'orders', '1', 0, 'AA', 'delivered', '',
        '', 'done', '')
""")
_BODY = text("INSERT INTO message_body (message_id, payload, ack) VALUES (1, :canary, :canary)")

COMMANDS: dict[tuple[str, ...], tuple[str, str, str, str]] = {
    ("messages", "show", "1"): ("read", "message", "1", "success"),
    ("messages", "show", "99"): ("read", "message", "99", "refused"),
    ("messages", "replay", "99"): ("replay", "message", "99", "refused"),
    ("deliveries", "show", "99"): ("read", "delivery", "99", "refused"),
    ("deliveries", "retry", "99"): ("retry", "delivery", "99", "refused"),
    ("deliveries", "skip", "99"): ("skip", "delivery", "99", "refused"),
    ("listeners", "pause", "ris-orders"): ("pause", "listener", "ris-orders", "success"),
    ("listeners", "resume", "ris-orders"): ("resume", "listener", "ris-orders", "success"),
    ("destinations", "pause", "nowhere"): ("pause", "destination", "nowhere", "refused"),
    ("mapping", "activate", "orders"): ("activate", "mapping", "orders", "success"),
    ("mapping", "rollback", "orders"): ("roll back", "mapping", "orders", "refused"),
    ("mapping", "try", "orders"): ("read", "messages", "last 20 of mapping orders", "success"),
    ("mapping", "try", "orders", "--last", "1"): (
        *("read", "messages", "last 1 of mapping orders", "success"),
    ),
    ("mapping", "try", "orders", "--version", "abcd"): (
        *("read", "messages", "last 20 of mapping orders", "refused"),
    ),
    ("mapping", "diff", "orders", "--from", "files"): (
        *("compare", "messages", "last 100 of mapping orders", "success"),
    ),
    ("exceptions", "seen", "--all"): ("mark as seen", "exceptions", "all", "success"),
}


def events(home: Home) -> list[dict[str, Any]]:
    """Return the audit trail, the newest event first."""
    found: list[dict[str, Any]] = json.loads(home.ok("audit", "list", "--json"))
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """One data directory for all commands: each sees the changes of the others."""
    made = Home(tmp_path_factory.mktemp("audit") / "home")
    made.init()
    with bridge_database(made.folder) as database:
        _fill(database)
    return made


def _fill(database: Database) -> None:
    with database.write() as connection:
        connection.execute(_MESSAGE)
        connection.execute(_BODY, {"canary": b"MSH|^~\\&|CANARY"})


@pytest.mark.parametrize("command", list(COMMANDS), ids=" ".join)
def test_a_command_leaves_one_event(home: Home, command: tuple[str, ...]) -> None:
    """The event has action, target, outcome, actor and place. A refusal is an event too."""
    before = {row["sequence"] for row in events(home)}
    home.run(*command)
    new = [row for row in events(home) if row["sequence"] not in before]
    (event,) = [row for row in new if row["action"] != "audit-read"]
    target = event["target"]
    event_fields = (event["action"], target["type"], target["id"], event["outcome"])
    assert event_fields == COMMANDS[command]
    assert (event["origin"], event["actor"]) == ("cli", event["details"]["command"])
    assert "pid" in event["source"]
    assert event["node"]
    assert "CANARY" not in json.dumps(event)


def test_the_chain_after_all_commands(home: Home) -> None:
    """After all commands the chain is valid and the outbox is empty."""
    assert home.ok("audit", "verify").startswith("ok:")


def test_a_trial_on_given_files_leaves_no_event(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "order.hl7"
    file.write_text("MSH|^~\\&|A|B|C|D|20260101||ORM^O01|1|P|2.5\rPID|1||77\r", "utf-8")
    before = {event["sequence"] for event in events(home)}
    home.run("mapping", "try", "orders", str(file))
    home.run("mapping", "diff", "orders", str(file))
    new = {event["action"] for event in events(home) if event["sequence"] not in before}
    assert new <= {"audit-read"}  # the listing of the trail itself


def test_an_import_into_files_leaves_an_event(tmp_path: Path) -> None:
    """The event has the package and the added channels and files. The second import fails."""
    home, folder = Home(tmp_path / "home"), tmp_path / "package"
    home.init()
    (folder / "mappings").mkdir(parents=True)
    listener = '[[listener]]\nname = "new"\nbind = "127.0.0.1:0"\nsite = "S"\n'
    (folder / "interface.toml").write_text(listener, "utf-8")
    (folder / "mappings/mine.py").write_text("def f(message):\n    return 'x'\n", "utf-8")
    outcomes = []
    for _ in range(2):
        home.run("interface", "import", str(folder))
        (newest,) = [e for e in events(home)[:2] if e["action"] == "import"]
        assert newest["target"] == {"type": "interface", "id": "package"}
        outcomes.append((newest["outcome"], newest["after"]))
    assert outcomes == [
        ("success", {"changes": ["added new", "added mine.py"]}),
        ("refused", None),
    ]


CHANGES: dict[tuple[str, ...], tuple[str, dict[str, Any], dict[str, Any]]] = {
    ("site", "add", "A1"): ("site-create", {}, {"SiteID": "A1"}),
    ("user", "add", "ada@example.org", "--site", "A1", "--name", "Ada"): (
        *("user-update", {}, {"name": "Ada", "role": "user"}),
    ),
    ("user", "add", "ada@example.org", "--site", "A1", "--name", "Ada", "--admin"): (
        *("user-update", {"role": "user"}, {"role": "administrator"}),
    ),
    ("token", "create", "--user", "ada@example.org", "--label", "ris"): (
        "token-create",
        {},
        {"label": "ris"},
    ),
    ("token", "revoke", "1"): ("token-revoke", {"revokedAt": None}, {}),
    ("console", "grant", "ada@example.org", "--role", "viewer", "--bodies"): (
        *("grant", {}, {"role": "viewer", "bodies": True, "sites": None}),
    ),
    ("console", "grant", "ada@example.org", "--role", "viewer", "--site", "A1"): (
        *("grant", {"bodies": True}, {"bodies": False, "sites": ["A1"]}),
    ),
    ("console", "revoke", "ada@example.org"): ("revoke", {"role": "viewer"}, {}),
    ("user", "disable", "ada@example.org"): (
        *("user-disable", {"disabled": False}, {"disabled": True}),
    ),
    ("user", "enable", "ada@example.org"): (
        *("user-enable", {"disabled": True}, {"disabled": False}),
    ),
    ("destinations", "pause", "archive"): ("pause", {"paused": False}, {"paused": True}),
    ("destinations", "resume", "archive"): ("resume", {"paused": True}, {"paused": False}),
}


def test_an_event_has_the_changed_members_before_and_after(tmp_path: Path) -> None:
    """Events of sites, users, tokens, grants and pauses have the target, and old and new values."""
    home = Home(tmp_path / "home")
    home.init()
    settings = home.folder / "bridge.toml"
    settings.write_text(
        '[[destination]]\nname = "archive"\naddress = "127.0.0.1:9"\nmapping = "results"\n', "utf-8"
    )
    for command, (action, before, after) in CHANGES.items():
        known = {row["sequence"] for row in events(home)}
        home.ok(*command)
        found = [e for e in events(home) if e["sequence"] not in known and e["action"] == action]
        assert len(found) == 1, (command, found)
        event = found[0]
        assert all(event["target"].values()), (command, event)
        assert before.items() <= event["before"].items(), (command, event)
        assert after.items() <= event["after"].items(), (command, event)
