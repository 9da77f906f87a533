"""`bridge rotate-keys` and `bridge prune` beside a running engine."""

import asyncio
import json
import secrets
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from sqlalchemy import insert, select, text

from bridge.admin.access.grants import GrantedRoles
from bridge.admin.installation import key_rotation
from bridge.admin.installation.key_rotation import NotRotated, rotate_keys
from bridge.engine.links import KeyRing
from bridge.engine.service.accounts import second_factor
from bridge.engine.service.accounts.users import ACCOUNTS
from bridge.engine.service.launch.links import LINKS
from bridge.report_engine import engine_application
from bridge.store.database import Database
from bridge.store.databases import bridge_database, migrate_engine, open_engine_database
from config import load
from config.secret_files import KEY_BYTES, read_link_keys, write_link_keys
from tests.bridge.cli.home import Home

DAY = 24 * 3600 * 1000


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, Home(folder)
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
        self._runner.run(self._application.state.engine.stop())
        self._runner.run(self._http.aclose())
        self._runner.close()
        self.database.dispose()

    def launch(self, accession: str, *, lazy: bool = False) -> str:
        body = {
            "clinicalInfo": {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": accession},
            "reportingApp": {},
            "response": {"type": "link"},
            "userInfo": {"UserEmail": "ann@site1.test", "UserName": "Ann"},
            "lazyLaunch": lazy,
        }
        response = self._post("launch/clinical", body)
        assert response.status_code == 200, response.text
        return str(response.json()["reportLink"])

    def unassign(self, accession: str, key: str) -> str:
        """Unassign a report with an Idempotency-Key, and return the error code, or nothing."""
        body = {"SiteID": "SITE1", "PatientMRN": "P1", "Accession": accession}
        response = self._post("unassign", body, {"idempotency-key": key})
        return str(response.json()["code"]) if response.content else ""

    def _post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        token = (self.folder / "secrets" / "engine.token").read_text().strip()
        headers = {"x-access-token": token, **(headers or {})}
        return self._runner.run(self._http.post(f"/api/report/{path}", json=body, headers=headers))

    def open(self, link: str) -> int:
        return self._runner.run(self._http.get(link)).status_code


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    Home(tmp_path / "home").init()
    made = Place(tmp_path / "home")
    made.home.ok("site", "add", "SITE1")
    yield made
    made.close()


def key_ids(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(text("SELECT key_id FROM engine_link")).scalars())


def test_links_outlive_their_key(place: Place) -> None:
    """After a rotation the running engine opens old links, and seals new ones with the new key."""
    before = read_link_keys(place.keys)
    links = [place.launch(f"A{number}", lazy=bool(number % 2)) for number in range(4)]
    output = place.home.ok("rotate-keys", "--drop-old")
    ring = read_link_keys(place.keys)
    assert [key for key, _ in ring] == [output.split()[1]]
    assert ring[0] not in before
    assert "4 links resealed" in output
    assert stat.S_IMODE(place.keys.stat().st_mode) == 0o600
    assert key_ids(place.database) == {ring[0][0]}
    assert [place.open(link) for link in links] == [200] * 4
    assert place.open(place.launch("A9")) == 200
    assert key_ids(place.database) == {ring[0][0]}


def test_a_second_node_uses_the_new_key_at_once(place: Place) -> None:
    """A second engine on the same database opens links of the new key at once."""
    second = Place(place.folder)
    try:
        assert second.open(place.launch("A1")) == 200
        rotate_keys(place.settings, drop_old=False, sleep=lambda _: None)
        assert second.open(place.launch("A2")) == 200
        assert place.open(second.launch("A3")) == 200
    finally:
        second.close()


def test_rotation_without_drop_keeps_old_keys(place: Place) -> None:
    """After two rotations the ring has three keys, the newest first, which seals the links."""
    place.launch("A1")
    oldest = read_link_keys(place.keys)
    for _ in range(2):
        rotate_keys(place.settings, drop_old=False, sleep=lambda _: None)
    ring = read_link_keys(place.keys)
    assert (len(ring), ring[2:]) == (3, oldest)
    assert key_ids(place.database) == {ring[0][0]}


def test_links_whose_key_is_lost(place: Place) -> None:
    """The rotation counts and skips links that cannot be opened."""
    good = place.launch("A1")
    place.launch("A2")
    with place.database.write() as connection:
        connection.execute(text("UPDATE engine_link SET key_id = 'lost' WHERE pk = 2"))
    done = rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)
    assert (done.links, done.unreadable) == (1, 1)
    assert place.open(good) == 200


def test_answers_and_authenticators_outlive_their_key(place: Place) -> None:
    """A repeated request gets its first answer, and the codes of an account stay valid."""
    place.launch("A1")
    assert place.unassign("A1", "k1") == ""
    old = KeyRing(read_link_keys(place.keys), secrets.token_bytes)
    with place.database.write() as connection:
        second_factor.store(connection, 1, second_factor.seal(old, 1, b"secret"))
    rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)
    restarted = Place(place.folder)
    assert restarted.unassign("A1", "k1") == ""
    restarted.close()
    new = KeyRing(read_link_keys(place.keys), secrets.token_bytes)
    with place.database.read() as connection:
        row = connection.execute(select(ACCOUNTS).where(ACCOUNTS.c.id == 1)).one()
    sealed = second_factor.SealedSecret(row.totp_key_id, row.totp_sealed)
    assert second_factor.unseal(new, 1, sealed) == b"secret"


def test_a_link_that_is_launched_during_a_rotation(place: Place) -> None:
    """The rotation waits for links of the old key that are not committed yet."""
    links: list[str] = []
    rotate_keys(place.settings, drop_old=True, sleep=lambda _: links.append(place.launch("A1")))
    assert [place.open(link) for link in links] == [200]


def test_a_request_whose_response_cannot_be_read(place: Place) -> None:
    """A request is refused if the key of its stored response is lost: it must not run twice."""
    place.launch("A1")
    assert place.unassign("A1", "k1") == ""
    write_link_keys(place.keys, [("other", bytes(KEY_BYTES))])
    restarted = Place(place.folder)
    assert restarted.unassign("A1", "k1") == "key_reused"
    restarted.close()


def test_one_rotation_at_a_time(place: Place) -> None:
    """A second concurrent rotation is refused: each would drop the key of the other."""
    with key_rotation._exclusive(place.keys), pytest.raises(NotRotated):
        rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)
    rotate_keys(place.settings, drop_old=True, sleep=lambda _: None)


def test_prune_removes_the_old_and_keeps_the_unfinished(place: Place) -> None:
    """`bridge prune` removes settled, expired and answered rows, and keeps open ones."""
    place.launch("A1")
    place.home.ok("site", "set", "SITE1", "signDelay=0")
    then = now() - 100 * DAY
    with place.database.write() as connection:
        connection.execute(text("UPDATE engine_change SET at = :then"), {"then": then})
        rows = [
            {"handle_hash": str(number), "expires_at": then + number * 200 * DAY}
            for number in range(2)
        ]
        sealed = {"purpose": "init", "site_id": "SITE1", "key_id": "x", "sealed": b"", "framed": 0}
        connection.execute(insert(LINKS), [{**row, **sealed, "created_at": then} for row in rows])
    counts = json.loads(place.home.ok("prune", "--older-than", "90d", "--json"))
    assert counts["changes"] == 0  # the bridge has not read the changes
    assert counts["links"] == 1
    with bridge_database(place.folder) as database, database.write() as connection:
        connection.execute(
            text("INSERT INTO feed_cursor (feed, cursor) VALUES ('', 1), ('changes SITE2', 0)")
        )
    counts = json.loads(place.home.ok("prune", "--older-than", "90d", "--json"))
    assert counts["changes"] == 0  # one feed has not read them
    with bridge_database(place.folder) as database, database.write() as connection:
        connection.execute(text("UPDATE feed_cursor SET cursor = 1"))
    counts = json.loads(place.home.ok("prune", "--older-than", "90d", "--json"))
    assert counts["changes"] == 1
    assert "changes    0" in place.home.ok("prune", "--older-than", "90d")
    verified = place.home.ok("audit", "verify")
    assert verified.startswith("ok")
    assert len(json.loads(place.home.ok("audit", "list", "--action", "prune", "--json"))) == 4
    with place.database.read() as connection:
        assert connection.execute(text("SELECT COUNT(*) FROM engine_report")).scalar_one() == 1
