"""`bridge rotate-keys` and `bridge prune`, beside a running engine."""

import asyncio
import json
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert, text
from typer.testing import CliRunner

from bridge.admin import key_rotation
from bridge.admin.console_roles import GrantedRoles
from bridge.admin.key_rotation import NotRotated, rotate_keys
from bridge.cli.application import application
from bridge.engine.service.launch.links import LINKS
from bridge.store.database import Database
from bridge.wiring.engine import engine_application
from bridge.wiring.secrets import read_link_keys
from bridge.wiring.stores import bridge_database, migrate_engine, open_engine_database
from config import load

DAY = 24 * 3600 * 1000


class Place:
    """A home, its running engine, and a way to launch and open."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = folder / "secrets" / "link.keys"
        self.settings = load(folder)
        self.database = open_engine_database(self.settings)
        migrate_engine(self.database)
        self._application = engine_application(
            self.settings, self.database, now, GrantedRoles(self.settings)
        )
        transport = httpx.ASGITransport(self._application)
        base = self.settings.http.public_url
        self._http = httpx.AsyncClient(transport=transport, base_url=base)
        self._runner = asyncio.Runner()
        self._runner.run(self._application.state.engine.start())

    def close(self) -> None:
        """Stop."""
        self._runner.run(self._application.state.engine.stop())
        self._runner.run(self._http.aclose())
        self._runner.close()
        self.database.dispose()

    def command(self, *arguments: str) -> str:
        """Run a command that must succeed on the home."""
        result = CliRunner().invoke(application, [*arguments, "--home", str(self.folder)])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    def launch(self, accession: str, *, lazy: bool = False) -> str:
        """Launch for a user and return the link."""
        token = (self.folder / "secrets" / "engine.token").read_text().strip()
        body = {
            "clinicalInfo": {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": accession},
            "reportingApp": {},
            "response": {"type": "link"},
            "userInfo": {"UserEmail": "ann@site1.test", "UserName": "Ann"},
            "lazyLaunch": lazy,
        }
        answer = self._runner.run(
            self._http.post(
                "/api/report/launch/clinical", json=body, headers={"x-access-token": token}
            )
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["reportLink"])

    def open(self, link: str) -> int:
        """Open a link; give the page's status."""
        return self._runner.run(self._http.get(link)).status_code


def now() -> int:
    """Tell the time."""
    return time.time_ns() // 1_000_000


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A home with a site, and its engine running."""
    CliRunner().invoke(application, ["init", str(tmp_path / "home")])
    made = Place(tmp_path / "home")
    made.command("site", "add", "SITE1")
    yield made
    made.close()


def key_ids(database: Database) -> set[str]:
    """Return the ids of the keys that links are sealed under."""
    with database.read() as connection:
        return set(connection.execute(text("SELECT key_id FROM engine_link")).scalars())


def test_links_outlive_their_key(place: Place) -> None:
    """Key ring with rotation: the service goes on, old links open, new ones use the new key."""
    before = read_link_keys(place.keys)
    links = [place.launch(f"A{number}", lazy=bool(number % 2)) for number in range(4)]
    said = place.command("rotate-keys", "--drop-old")
    ring = read_link_keys(place.keys)
    assert [key for key, _ in ring] == [said.split()[1]]
    assert ring[0] not in before
    assert "4 links sealed anew" in said
    assert stat.S_IMODE(place.keys.stat().st_mode) == 0o600
    assert key_ids(place.database) == {ring[0][0]}
    assert [place.open(link) for link in links] == [200] * 4
    assert place.open(place.launch("A9")) == 200
    assert key_ids(place.database) == {ring[0][0]}


def test_a_second_node_opens_what_the_first_has_just_sealed(place: Place) -> None:
    """Two engines on one ring and one database: neither waits to learn of the new key."""
    other = Place(place.folder)
    try:
        assert other.open(place.launch("A1")) == 200
        rotate_keys(place.settings, drop_old=False, sleep=lambda _: None)
        assert other.open(place.launch("A2")) == 200
        assert place.open(other.launch("A3")) == 200
    finally:
        other.close()


def test_without_drop_old_keys_stay_behind_the_new_one(place: Place) -> None:
    """Twice rotated: three keys, the newest first; the links are under it."""
    place.launch("A1")
    oldest = read_link_keys(place.keys)
    for _ in range(2):
        rotate_keys(place.settings, drop_old=False, sleep=lambda _: None)
    ring = read_link_keys(place.keys)
    assert (len(ring), ring[2:]) == (3, oldest)
    assert key_ids(place.database) == {ring[0][0]}


def test_a_link_whose_key_is_lost_stops_nobody(place: Place) -> None:
    """Links that nobody can open are counted and left; all others move."""
    good = place.launch("A1")
    place.launch("A2")
    with place.database.write() as connection:
        connection.execute(text("UPDATE engine_link SET key_id = 'lost' WHERE pk = 2"))
    done = rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)
    assert (done.links, done.unreadable) == (1, 1)
    assert place.open(good) == 200


def test_one_rotation_at_a_time(place: Place) -> None:
    """Two at once would each drop the other's key."""
    with key_rotation._exclusive(place.keys), pytest.raises(NotRotated):
        rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)
    rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)


def test_prune_removes_the_old_and_keeps_the_unfinished(place: Place) -> None:
    """`bridge prune`: what is settled, expired or answered goes; what is open stays."""
    place.launch("A1")
    place.command("site", "set", "SITE1", "signDelay=0")
    then = now() - 100 * DAY
    with place.database.write() as connection:
        connection.execute(text("UPDATE engine_change SET at = :then"), {"then": then})
        rows = [
            {"handle_hash": str(number), "expires_at": then + number * 200 * DAY}
            for number in range(2)
        ]
        sealed = {"purpose": "init", "site_id": "SITE1", "key_id": "x", "sealed": b"", "framed": 0}
        connection.execute(insert(LINKS), [{**row, **sealed, "created_at": then} for row in rows])
    counts = json.loads(place.command("prune", "--older-than", "90d", "--json"))
    assert counts["changes"] == 0  # the bridge has not read them
    assert counts["links"] == 1
    with bridge_database(place.folder) as database, database.write() as connection:
        connection.execute(
            text("INSERT INTO feed_cursor (feed, cursor) VALUES ('', (:cursor))"), {"cursor": 1}
        )
    counts = json.loads(place.command("prune", "--older-than", "90d", "--json"))
    assert counts["changes"] == 1
    assert "changes    0" in place.command("prune", "--older-than", "90d")
    verified = place.command("audit", "verify")
    assert verified.startswith("ok")
    assert len(json.loads(place.command("audit", "list", "--action", "prune", "--json"))) == 3
    with place.database.read() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM engine_report")).scalar_one() == 1
