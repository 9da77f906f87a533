"""
The audit action of each HTTP route, by the module and the name of its function.

A request that is refused before its use case starts has the action of its route. Routes that are
not in the tables have the name of their function.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

ENGINE: Final[Mapping[str, Mapping[str, str]]] = {
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
        "get_site": "site-read",
        "list_observed_hosts": "site-read",
        "list_users": "users-read",
        "list_tokens": "tokens-read",
        "list_groups": "prelim-groups-read",
        "list_templates": "templates-read",
        "read_audit": "audit-read",
        "import_template": "template-update",
        "set_code_map": "code-map-update",
        "set_macro": "macro-update",
        "delete_macro": "macro-delete",
        "export_template": "template-read",
        "read_code_map": "code-map-read",
        "list_macros": "macros-read",
    },
    "password_sign_in": {"login": "login"},
    "enrolment_page": {"enrolled": "enrol"},
    "exports": dict.fromkeys(("export_html", "export_json", "export_rtf", "export_pdf"), "export"),
    "live": {"follow": "follow", "end": "sign-out"},
    "launches": {"launch": "launch", "launch_batch": "launch", "init": "init"},
    "reports": {
        "sign_report": "sign",
        "unsign_report": "unsign",
        "release_addendum": "addendum-sign",
        "unsign_addendum": "addendum-unsign",
        "prelim_report": "prelim",
        "withdraw_prelim": "prelim-withdraw",
        "delete": "delete",
        "reset": "reset-order",
        "unassign_report": "unassign",
        "elsewhere": "elsewhere",
        "outside": "outside",
        "assign": "assign",
        "link": "link-orders",
        "unlink": "unlink-orders",
        "update_dicomsr": "update-dicomsr",
        "update": "patient-update",
        "merge": "patient-merge",
        "unmerge": "patient-unmerge",
    },
    "report_queries": {"status": "status"},
    "worklist": {"assign": "assign", "rows": "worklist"},
    "report": {
        "open_again": "view",
        "transfer": "transfer",
        "unread": "return-to-unread",
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
        "set_macro": "macro-update",
        "delete_macro": "macro-delete",
    },
    "system_accounts": {
        "enrol": "user-enrol",
        "require_second_factor": "user-second-factor",
        "disable": "user-disable",
        "enable": "user-enable",
        "reserve_account": "user-reserve",
        "change_email": "user-email",
        "set_signature": "signature-update",
        "create_token": "token-create",
        "revoke_token": "token-revoke",
    },
}

CONSOLE: Final[Mapping[str, Mapping[str, str]]] = {
    "audit_trail": {
        "export": "export",
        "verify": "verify",
    },
    "background": {
        "create": "create job",
        "content": "download export",
        "stop": "stop job",
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
    "attention": {
        "seen": "acknowledge",
        "seen_all": "acknowledge",
    },
    "orders": {
        "unread": "return-to-unread",
    },
    "deliveries": {
        "retry": "retry",
        "skip": "skip",
    },
    "edits": {
        "resend": "send again",
        "resend_delivery": "send again",
    },
    "examples": {
        "accept": "accept examples",
        "remove": "remove example",
    },
    "find": {
        "anything": "search",
    },
    "first_steps": {
        "sample_order": "send sample order",
        "sample_result": "send sample result",
    },
    "lists": {
        "page": "search",
        "count": "search",
        "rows": "search",
        "content": "list content",
    },
    "views": {
        "add": "save view",
        "change": "save view",
        "delete": "delete view",
    },
    "mappings": {
        "save": "save draft",
        "discard": "discard draft",
        "activate": "activate",
        "rollback": "roll back",
        "set_listener_definitions": "activate",
        "compose_releases": "read",
        "stored": "read",
        "compare": "compare",
        "ignore_code": "leave code",
        "add_code": "save draft",
    },
    "merges": {
        "correct": "correct results",
        "list_merges": "read",
        "show": "read merge",
        "undo": "undo merge",
    },
    "messages": {
        "replay": "replay",
        "cancel": "cancel",
    },
    "examinations": {"examine": "examine"},
    "shadow": {
        "start": "shadow run",
        "sample": "read",
    },
    "site_administration": {
        "set_user": "change user",
        "remove_user": "remove user",
        "create_token": "create token",
        "revoke_token": "revoke token",
        "assign_role": "grant",
        "remove_role": "revoke",
        "enrol": "reset account",
        "disable": "disable account",
        "enable": "enable account",
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


def action_of(actions: Mapping[str, Mapping[str, str]], scope: Mapping[str, Any], gap: str) -> str:
    """Return the action of the route of a request; `gap` replaces underscores of its function."""
    endpoint: Callable[..., Any] | None = getattr(scope.get("route"), "endpoint", None)
    if endpoint is None:
        return "request"
    module, name = endpoint.__module__.rpartition(".")[2], endpoint.__name__
    return actions.get(module, {}).get(name) or name.replace("_", gap)
