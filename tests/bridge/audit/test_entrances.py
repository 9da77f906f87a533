"""Each entrance that changes data names its audit action, or the reason why it has none."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import typer
from fastapi import APIRouter

from bridge.audit.route_actions import CONSOLE, ENGINE
from bridge.cli.application import application
from bridge.console.http.application import ROUTERS as CONSOLE_ROUTERS
from bridge.engine.http.engine_application import OPERATOR_ROUTERS, ROUTERS

ROOT = Path(__file__).resolve().parents[3] / "bridge"
READING = {"GET", "HEAD", "OPTIONS"}

COMMANDS = {
    "audit export": "audit-export",
    "audit list": "audit-read",
    "concerns seen": "mark as seen",
    "exceptions seen": "mark as seen",
    "console grant": "grant",
    "console revoke": "revoke",
    "deliveries export": "export",
    "deliveries retry": "retry",
    "deliveries show": "read",
    "deliveries skip": "skip",
    "destinations pause": "pause",
    "destinations resume": "resume",
    "interface import": "import",
    "interface specification": "export",
    "jobs stop": "stop job",
    "listeners pause": "pause",
    "listeners resume": "resume",
    "mapping activate": "activate",
    "mapping diff": "compare",
    "mapping read-with": "read with",
    "mapping examples accept": "accept examples",
    "mapping examples remove": "remove example",
    "mapping rollback": "roll back",
    "mapping shadow": "shadow run",
    "mapping try": "read",
    "merges show": "read merge",
    "merges undo": "undo merge",
    "merges correct": "correct results",
    "orders show": "search",
    "orders steps": "search",
    "orders return-to-unread": "return-to-unread",
    "messages export": "export",
    "messages replay": "replay",
    "messages show": "read",
    "peers remove": "set up",
    "peers rollback": "roll back",
    "peers set": "set up",
    "prune": "prune",
    "backup": "backup",
    "restore": "restore",
    "rotate-keys": "keys-rotate",
    "site add": "site-create",
    "site codes import": "code-map-update",
    "site groups set": "prelim-group-update",
    "site set": "site-update",
    "site templates import": "template-update",
    "site templates remove": "template-delete",
    "token create": "token-create",
    "token revoke": "token-revoke",
    "user add": "user-update",
    "user disable": "user-disable",
    "user email": "user-email",
    "user enable": "user-enable",
    "user enrol": "user-enrol",
    "user signature": "signature-update",
}

WITHOUT = {
    # Routes of a page whose opening is an event: they read or compute, and change no record.
    "engine live.activity": "keeps a session alive",
    "engine live.handed_over": "says that a text is saved; the takeover is an event",
    "engine live.stay": "stores that a window stays at its report",
    "engine report.map_findings": "computes text for the open report",
    "engine report.presence": "reads who has the report open",
    "engine report.leave": "ends the presence on the open report",
    "engine assistance.apply_findings": "computes text for the open report",
    "engine assistance.recognize": "computes text for the open report",
    # Steps of `bridge prune`, `rotate-keys` and `audit export`, which are events as a whole.
    "engine upkeep.prune": "one step of a command",
    "engine upkeep.reseal_links": "one step of a command",
    "engine upkeep.reseal_secrets": "one step of a command",
    "engine upkeep.describe_reports": "one step of a command",
    # Console routes that compute on the request, or list rows without content.
    "console edits.check": "checks what the request holds",
    "console edits.check_delivery": "checks what the request holds",
    "console connections.check": "checks what the request holds",
    "console connections.preview": "reads what the request holds",
    "console mappings.sample_messages": "reads what the request holds",
    "console mappings.try_out": "computes on what the request holds",
    "console mappings.edit_rule": "computes on what the request holds",
    "console mappings.learn": "computes on what the request holds",
    # Commands that list without patient data, work on given files, or create a data directory.
    "cli init": "there is no trail before it",
    "cli serve": "its requests are events",
    "cli check": "reads; --fix narrows file modes",
    "cli compare": "settings, without patient data and secrets",
    "cli migrate": "the migrations are recorded in the databases",
    "cli send": "sends a given file to any address",
    "cli receive": "prints what a test sender sends",
    "cli site list": "no patient data",
    "cli site show": "no patient data",
    "cli site groups list": "no patient data",
    "cli site templates list": "no patient data",
    "cli site templates export": "no patient data",
    "cli site codes export": "no patient data",
    "cli user list": "no patient data",
    "cli token list": "no patient data",
    "cli attention": "causes and counts, without content",
    "cli messages list": "rows without content",
    "cli deliveries list": "rows without content",
    "cli jobs list": "no patient data",
    "cli jobs show": "no patient data",
    "cli listeners list": "no patient data",
    "cli destinations list": "no patient data",
    "cli peers list": "no patient data",
    "cli peers refused": "no patient data",
    "cli peers history": "no patient data",
    "cli alerts list": "no patient data",
    "cli alerts test": "sends a notification without content",
    "cli exceptions list": "codes and counts",
    "cli exceptions report": "codes and counts",
    "cli exceptions reconcile": "asks the service to compare now",
    "cli concerns list": "codes and counts",
    "cli concerns report": "codes and counts",
    "cli concerns reconcile": "asks the service to compare now",
    "cli mapping history": "no patient data",
    "cli mapping examples list": "no patient data",
    "cli mapping check": "works on given files",
    "cli mapping schema": "no patient data",
    "cli mapping learn": "works on given files",
    "cli interface export": "no patient data",
    "cli import-mirth": "works on given files",
    "console mirth.convert": "works on a given file; the import of its proposal is audited",
    "cli examine": "sends invented messages to a given address",
    "cli audit verify": "reads hashes",
    "cli audit head": "reads hashes",
    "cli merges list": "identifiers without names",
    "cli channels": "no patient data",
    "cli first-steps": "states of the installation, without content",
    "cli console list": "no patient data",
}


def table() -> dict[str, str]:
    found = {f"cli {name}": action for name, action in COMMANDS.items()}
    for area, modules in (("engine", ENGINE), ("console", CONSOLE)):
        for module, routes in modules.items():
            found |= {f"{area} {module}.{name}": action for name, action in routes.items()}
    return found


def routes(area: str, routers: list[APIRouter], without: Collection[str] = ()) -> Iterator[str]:
    """Return the endpoints of all routes with other methods than `without`."""
    for router in routers:
        for route in router.routes:
            if set(getattr(route, "methods", None) or ()) - set(without):
                endpoint: Any = getattr(route, "endpoint", None)
                yield f"{area} {endpoint.__module__.rpartition('.')[2]}.{endpoint.__name__}"


def commands(command: Any, *names: str) -> Iterator[str]:
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(("cli", *names))
        return
    for name, item in below.items():
        yield from commands(item, *names, name)


def test_each_entrance_is_in_the_table() -> None:
    """Each route and command is in the table, and the table has no others."""
    entrances = {
        *routes("engine", [*ROUTERS, *OPERATOR_ROUTERS], READING),
        *routes("console", list(CONSOLE_ROUTERS), READING),
        *commands(typer.main.get_command(application)),
    }
    listed = table()
    assert not listed.keys() & WITHOUT.keys()
    assert entrances - listed.keys() - WITHOUT.keys() == set()
    assert WITHOUT.keys() - entrances == set()
    entrances |= {
        *routes("engine", [*ROUTERS, *OPERATOR_ROUTERS]),
        *routes("console", list(CONSOLE_ROUTERS)),
    }
    assert listed.keys() - entrances == set()


def test_each_action_is_recorded() -> None:
    """The source of the area has each action as a literal."""
    places = {
        "engine": ["engine"],
        "console": ["console"],
        "cli": ["cli", "admin", "engine"],
    }
    literals = {
        area: {
            item
            for folder in folders
            for path in (ROOT / folder).rglob("*.py")
            for item in re.findall(r'"([a-z -]+)', path.read_text("utf-8"))
        }
        for area, folders in places.items()
    }
    missing = {
        entrance: action
        for entrance, action in table().items()
        if not any(literal.strip() == action for literal in literals[entrance.partition(" ")[0]])
    }
    assert missing == {}
