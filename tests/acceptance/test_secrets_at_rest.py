"""No issued secret is in a file of the data directory or in a row of the database."""

import base64
import re
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from tests.acceptance.house import TOKEN, House
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender
from tests.conftest import empty
from tests.eventually import PATIENCE

PASSWORD = "correct horse battery staple 4711"  # invented
CHOSEN = "another horse without a battery 0815"
NAMED = {"engine.token", "link.keys", "index.key"}
"""Files of `secrets` that may contain secrets."""
_HANDLE = re.compile(r"(?:token|handle|share|init)[=/]([A-Za-z0-9_-]{22,86})(?![A-Za-z0-9_-])")
_TOKEN = re.compile(r"rbt_[A-Za-z0-9_-]+")
_SECOND_FACTOR = re.compile(r'class="secret">([A-Z2-7]+)<')
_BOOT = re.compile(r'"session":\s*"([A-Za-z0-9_-]{20,})"')


@dataclass
class Used:
    house: House
    secrets: dict[str, str] = field(default_factory=dict)

    def keep(self, kind: str, text: str) -> None:
        for pattern in (_HANDLE, _TOKEN, _BOOT):
            for number, found in enumerate(pattern.findall(text)):
                self.secrets[f"{kind} {pattern.pattern[:12]} {number}"] = found

    def record(self, kind: str, answer: httpx.Response) -> httpx.Response:
        assert answer.status_code < 400, (kind, answer.status_code, answer.text)
        self.keep(kind, f"{answer.text} {answer.headers.get('location', '')}")
        for cookie in answer.headers.get_list("set-cookie"):
            value = cookie.partition("=")[2].partition(";")[0]
            if len(value) > 8:
                self.secrets[f"{kind} cookie {cookie.partition('=')[0]}"] = value
        return answer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def used(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Used]:
    database = ""
    if request.param == "postgresql":
        database = request.getfixturevalue("postgres_url")
        empty(database)
    house = House(tmp_path / "home", database=database)
    house.settings = '[log]\nlevel = "debug"\n[sign_in]\nsecond_factor = "required"\n'
    house.make()
    (house.home / TOKEN).unlink()
    used = Used(house)
    used.keep("command", house.token)
    add_person(used)
    house.start()
    issue_all(used)
    enrol(used)
    used.keep("later command", house.bridge("token", "create", "--user", "ada@example.org"))
    house.bridge("rotate-keys", "--drop-old")
    yield used
    house.kill()


def add_person(used: Used) -> None:
    command = [sys.executable, "-m", "bridge", "user", "add", "pia@example.org", "--name", "Pia"]
    where = ["--site", "SITE1", "--password-stdin", "--home", str(used.house.home)]
    subprocess.run([*command, *where], input=PASSWORD, text=True, check=True, timeout=PATIENCE)
    used.secrets["password"] = PASSWORD


def issue_all(used: Used) -> None:
    """Issue tokens, links and sessions, sign in with wrong credentials, and send a message."""
    house = used.house
    with httpx.Client(
        base_url=house.url, headers={"x-access-token": house.token}, timeout=PATIENCE
    ) as machine:
        body = {"email": "ada@example.org", "label": "machine"}
        for _ in range(2):
            answer = machine.post(
                "/api/admin/sites/SITE1/tokens", json=body, headers={"idempotency-key": "a-key-1"}
            )
            used.record("repeated token", answer)
        links = [
            used.record(
                f"launch {number}", machine.post("/api/report/launch/clinical", json=launch)
            )
            for number, launch in enumerate(launches())
        ]
        init = {"clinicalInfo": {"SiteID": "SITE1"}, "response": {"type": "link"}}
        answer = machine.post("/api/report/init", json=init)
        if answer.status_code == 200:
            used.record("init", answer)
    with httpx.Client(base_url=house.url, timeout=PATIENCE) as browser:
        page = used.record(
            "opened", browser.get(links[0].json()["reportLink"], follow_redirects=True)
        )
        (session,) = _BOOT.findall(page.text)[:1]
        head = {"authorization": f"Bearer {session}", "origin": house.url}
        shares = browser.post("/reporting/api/session/shares", json={}, headers=head)
        used.record("share", shares)
        form = {"email": "pia@example.org", "password": PASSWORD}
        headers = {"origin": house.url, "accept": "application/json"}
        answer = browser.post("/reporting/login", data=form, headers=headers)
        used.record("sign-in", answer)
        guess = form | {"password": "guess of mine 815"}
        browser.post("/reporting/login", data=guess, headers=headers)
        used.secrets["guess"] = "guess of mine 815"
        browser.get("/api/worklist", headers={"x-access-token": "rbt_never-issued-0815"})
        used.secrets["unknown token"] = "rbt_never-issued-0815"
        browser.get("/launch-report/clinical?token=AAAAAAAAAAAAAAAAAAAA15")
        used.secrets["unknown link"] = "AAAAAAAAAAAAAAAAAAAA15"
    with Sender(house.mllp_port) as sender:
        sender.ask(order(1, mrn="M1"))
    house.settle()


def enrol(used: Used) -> None:
    """Issue enrolment links and set a password, with a second factor."""
    house = used.house
    account = ("eve@example.org", "--name", "Eve", "--site", "SITE1")
    printed = house.bridge("user", "add", *account)
    used.keep("enrolment by command", printed)
    service = (house.home / "secrets" / "engine.token").read_text().strip()
    with httpx.Client(
        base_url=house.url, headers={"x-access-token": service}, timeout=PATIENCE
    ) as console:
        found = console.get("/api/account", params={"email": "eve@example.org"}).json()
        body = {"accountId": found["accountId"], "secondFactor": True, "endTokens": True}
        issued = used.record("enrolment", console.post("/api/account/enrolment", json=body))
    with httpx.Client(
        base_url=house.url, headers={"origin": house.url}, timeout=PATIENCE
    ) as browser:
        page = used.record("enrolment page", browser.get(issued.json()["link"]))
        (secret,) = _SECOND_FACTOR.findall(page.text)
        raw = base64.b32decode(secret + "=" * (-len(secret) % 8))
        digest = SHA1()  # noqa: S303  # RFC 6238
        code = TOTP(raw, 6, digest, 30).generate(int(time.time())).decode()
        (token,) = _HANDLE.findall(issued.json()["link"]) or [""]
        form = {"token": token, "password": CHOSEN, "again": CHOSEN, "code": code}
        used.record("enrolled", browser.post("/reporting/enrol", data=form))
    used.secrets |= {"second factor": secret, "chosen password": CHOSEN}
    used.secrets["raw second factor"] = raw.hex()


def launches() -> Iterator[dict[str, Any]]:
    for number, kind in enumerate(("link", "qrcode", "all")):
        clinical = {"SiteID": "SITE1", "PatientMRN": "M9", "Accession": f"A9{number}"}
        yield {"clinicalInfo": clinical, "reportingApp": {}, "response": {"type": kind}}


def forms(secret: str) -> set[bytes]:
    raw = secret.encode()
    found = {raw, raw.hex().encode(), raw.hex().upper().encode()}
    found |= {urllib.parse.quote(secret, safe="").encode(), base64.b64encode(raw).rstrip(b"=")}
    found |= {base64.urlsafe_b64encode(raw).rstrip(b"="), secret.encode("utf-16-le")}
    found |= {base64.b64encode(b"." * n + raw + b"...")[4:-8] for n in (1, 2)}
    if re.fullmatch(r"[A-Za-z0-9_-]{22,}", secret):  # the decoded handle
        found.add(base64.urlsafe_b64decode(secret + "=" * (-len(secret) % 4)))
    if re.fullmatch(r"([0-9a-f]{2}){16,}", secret):
        found.add(bytes.fromhex(secret))
    return found


def everything(used: Used) -> Iterator[tuple[str, bytes]]:
    """Each file of the data directory, and each row of each table on PostgreSQL."""
    for path in used.house.home.rglob("*"):
        if path.is_file() and not (path.parent.name == "secrets" and path.name in NAMED):
            yield str(path.relative_to(used.house.home)), path.read_bytes()
    if not used.house.database:
        return
    engine = sqlalchemy.create_engine(used.house.database)
    with engine.connect() as connection:
        tables = sqlalchemy.inspect(engine).get_table_names()
        for table in tables:
            rows = connection.exec_driver_sql(f'SELECT t.*, t::text FROM "{table}" AS t').all()  # noqa: S608
            yield f"table {table}", b"\n".join(_bytes(value) for row in rows for value in row)
    engine.dispose()


def _bytes(value: object) -> bytes:
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return str(value).encode("utf-8", "surrogateescape")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_no_secret_is_stored_in_clear(used: Used) -> None:
    """No secret is stored as plain text, hexadecimal, Base64, percent-encoded or UTF-16."""
    kinds = " ".join(used.secrets)
    issued = (
        "command",
        "repeated token",
        "launch",
        "share",
        "opened",
        "sign-in cookie",
        "enrolment",
    )
    for kind in issued:
        assert kind in kinds, f"{kind} was not issued: {kinds}"
    found = {
        (place, kind)
        for place, content in everything(used)
        for kind, secret in used.secrets.items()
        if any(form in content for form in forms(secret))
    }
    assert found == set()
