"""Each entrance that changes data names its audit action, or the reason why it has none."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from fastapi import APIRouter

from bridge.cli.application import application
from bridge.console.http.application import ROUTERS as CONSOLE_ROUTERS
from bridge.engine.http.engine_application import ROUTERS

ROOT = Path(__file__).resolve().parents[3] / "bridge"
READING = {"GET", "HEAD", "OPTIONS"}

ENGINE = {
    "account": {
        "change_profile": "profile-update",
        "change_password": "password-update",
        "confirm": "confirm",
        "leave": "logout",
        "create_token": "token-create",
        "revoke_token": "token-revoke",
    },
    "administration": {
        "add_site": "site-create",
        "update_site": "site-update",
        "change_site": "site-update",
        "set_signature": "signature-update",
        "add_user": "user-update",
        "remove_user": "user-remove",
        "create_token": "token-create",
        "revoke_token": "token-revoke",
        "set_group": "prelim-group-update",
        "delete_group": "prelim-group-delete",
        "set_template": "template-update",
        "delete_template": "template-delete",
    },
    "public_pages": {"login": "login", "enrolled": "enrol"},
    "exports": dict.fromkeys(("export_html", "export_json", "export_rtf", "export_pdf"), "export"),
    "live": {"follow": "follow", "end": "sign-out"},
    "orders": {
        "launch": "launch",
        "launch_batch": "launch",
        "init": "init",
        "delete": "delete",
        "reset": "reset-order",
        "unassign_report": "unassign",
        "assign": "assign",
        "link": "link-orders",
        "unlink": "unlink-orders",
        "update_dicomsr": "update-dicomsr",
        "update": "patient-update",
        "merge": "patient-merge",
    },
    "report_queries": {"status": "status"},
    "worklist": {"assign": "assign"},
    "report": {
        "open_again": "view",
        "transfer": "transfer",
        "save": "save",
        "sign": "sign",
        "sign_now": "sign",
        "unsign": "unsign",
        "prelim": "prelim",
        "choose": "profile-update",
        "discard": "discard",
        "create_addendum": "addendum-create",
        "save_addendum": "addendum-save",
        "sign_addendum": "addendum-sign",
        "release_addendum": "addendum-release",
        "unsign_addendum": "addendum-unsign",
        "cancel_addendum": "addendum-cancel",
        "generate_billing": "billing",
        "share": "share-create",
        "revoke": "share-revoke",
    },
    "signing": {
        "sign_report": "sign",
        "unsign_report": "unsign",
        "release_addendum": "addendum-sign",
        "unsign_addendum": "addendum-unsign",
        "prelim_report": "prelim",
        "withdraw_prelim": "prelim-withdraw",
    },
    "site_files": {
        "import_template": "template-update",
        "set_code_map": "code-map-update",
        "set_macro": "macro-update",
        "delete_macro": "macro-delete",
    },
    "system_accounts": {
        "enrol": "user-enrol",
        "require_second_factor": "user-second-factor",
        "disable": "user-disable",
        "enable": "user-enable",
    },
    "report_tools": {"set_macro": "macro-update", "delete_macro": "macro-delete"},
}
CONSOLE = {
    "audit_trail": {
        "verify": "verify",
    },
    "connections": {
        "pause": "pause",
        "resume": "resume",
        "test": "test",
        "try_out": "test",
        "save": "set up",
        "rollback": "roll back",
        "import_zip": "import",
    },
    "dashboard": {
        "seen": "acknowledge",
    },
    "deliveries": {
        "retry": "retry",
        "skip": "skip",
    },
    "mappings": {
        "save": "save draft",
        "discard": "discard draft",
        "activate": "activate",
        "rollback": "roll back",
        "set_listener_definitions": "activate",
        "stored": "read",
        "compare": "compare",
        "ignore_code": "leave code",
        "add_code": "save draft",
    },
    "messages": {
        "find": "search",
        "replay": "replay",
        "cancel": "cancel",
        "replay_all": "replay",
        "resend": "send again",
        "track": "search",
    },
    "people": {
        "set_user": "change user",
        "remove_user": "remove user",
        "create_token": "create token",
        "revoke_token": "revoke token",
        "assign_role": "grant",
        "remove_role": "revoke",
        "enrol": "reset account",
        "disable": "disable account",
        "enable": "enable account",
    },
    "site_administration": {
        "add_site": "add site",
        "change_site": "change site",
        "set_code_map": "change code map",
        "import_template": "change template",
        "set_template": "change template",
        "delete_template": "remove template",
        "set_group": "change prelim group",
        "delete_group": "remove prelim group",
        "worklist": "read",
    },
}
COMMANDS = {
    "audit export": "audit-export",
    "audit list": "audit-read",
    "concerns seen": "mark as seen",
    "exceptions seen": "mark as seen",
    "console grant": "grant",
    "console revoke": "revoke",
    "deliveries retry": "retry",
    "deliveries show": "read",
    "deliveries skip": "skip",
    "destinations pause": "pause",
    "destinations resume": "resume",
    "interface import": "import",
    "listeners pause": "pause",
    "listeners resume": "resume",
    "mapping activate": "activate",
    "mapping diff": "compare",
    "mapping read-with": "read with",
    "mapping rollback": "roll back",
    "mapping try": "read",
    "messages replay": "replay",
    "messages show": "read",
    "prune": "prune",
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
    "engine report_tools.map_findings": "computes text for the open report",
    "engine report_tools.presence": "reads who has the report open",
    "engine report_tools.leave": "ends the presence on the open report",
    "engine assistance.apply_findings": "computes text for the open report",
    "engine assistance.recognize": "computes text for the open report",
    # Console routes that compute on the request, or list rows without content.
    "console deliveries.find": "lists rows without content",
    "console messages.check": "checks what the request holds",
    "console connections.check": "checks what the request holds",
    "console connections.preview": "reads what the request holds",
    "console mappings.sample_messages": "reads what the request holds",
    "console mappings.try_out": "computes on what the request holds",
    "console mappings.learn": "computes on what the request holds",
    # Commands that list without patient data, work on given files, or create a data directory.
    "cli init": "there is no trail before it",
    "cli serve": "its requests are events",
    "cli check": "reads; --fix narrows file modes",
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
    "cli messages list": "rows without content",
    "cli deliveries list": "rows without content",
    "cli listeners list": "no patient data",
    "cli destinations list": "no patient data",
    "cli alerts list": "no patient data",
    "cli alerts test": "sends a notification without content",
    "cli exceptions list": "codes and counts",
    "cli exceptions report": "codes and counts",
    "cli exceptions reconcile": "asks the service to compare now",
    "cli concerns list": "codes and counts",
    "cli concerns report": "codes and counts",
    "cli concerns reconcile": "asks the service to compare now",
    "cli mapping history": "no patient data",
    "cli mapping check": "works on given files",
    "cli mapping schema": "no patient data",
    "cli mapping learn": "works on given files",
    "cli interface export": "no patient data",
    "cli audit verify": "reads hashes",
    "cli audit head": "reads hashes",
    "cli console list": "no patient data",
}


def table() -> dict[str, str]:
    """Return the entrances and actions of all three tables."""
    found = {f"cli {name}": action for name, action in COMMANDS.items()}
    for area, modules in (("engine", ENGINE), ("console", CONSOLE)):
        for module, routes in modules.items():
            found |= {f"{area} {module}.{name}": action for name, action in routes.items()}
    return found


def changing_routes(area: str, routers: list[APIRouter]) -> Iterator[str]:
    """Return the endpoints of all routes that are not GET."""
    for router in routers:
        for route in router.routes:
            if set(getattr(route, "methods", None) or ()) - READING:
                endpoint: Any = getattr(route, "endpoint", None)
                yield f"{area} {endpoint.__module__.rpartition('.')[2]}.{endpoint.__name__}"


def commands(command: Any, *names: str) -> Iterator[str]:
    """Return the names of all commands below one."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(("cli", *names))
        return
    for name, each in below.items():
        yield from commands(each, *names, name)


def test_each_entrance_is_in_the_table() -> None:
    """Each route and command is in the table, and the table has no others."""
    entrances = {
        *changing_routes("engine", list(ROUTERS)),
        *changing_routes("console", list(CONSOLE_ROUTERS)),
        *commands(typer.main.get_command(application)),
    }
    listed = table()
    assert not listed.keys() & WITHOUT.keys()
    assert entrances - listed.keys() - WITHOUT.keys() == set()
    assert (listed.keys() | WITHOUT.keys()) - entrances == set()


def test_each_action_is_recorded() -> None:
    """The source of the area has each action as a literal."""
    places = {"engine": ["engine"], "console": ["console"], "cli": ["cli", "admin", "wiring"]}
    literals = {
        area: {
            each
            for folder in folders
            for path in (ROOT / folder).rglob("*.py")
            for each in re.findall(r'"([a-z -]+)', path.read_text("utf-8"))
        }
        for area, folders in places.items()
    }
    missing = {
        entrance: action
        for entrance, action in table().items()
        if not any(each.strip() == action for each in literals[entrance.partition(" ")[0]])
    }
    assert missing == {}
