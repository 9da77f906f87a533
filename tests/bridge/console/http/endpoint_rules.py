"""
The permissions that each endpoint of the console requires, and a request for it.

A test compares this table with the routes, and replaces the path parameters by those of a site.
"""

from dataclasses import dataclass, field
from typing import Any

from bridge.console.permissions import Permission

_P = Permission
EDITED = {"segments": ["MSH|^~\\&|X"]}


@dataclass(frozen=True)
class Rule:
    """`needs`: the permissions; `body`: the request body; `site`: the target belongs to a site."""

    needs: frozenset[Permission]
    body: Any = None
    site: bool = False
    unlimited: bool = field(default=False)
    """Only for users who are not limited to sites."""


def _rule(
    *needs: Permission, body: Any = None, site: bool = False, unlimited: bool = False
) -> Rule:
    return Rule(frozenset(needs), body, site, unlimited)


RULES: dict[str, Rule] = {
    "GET /api/me": _rule(),
    "GET /api/overview": _rule(_P.SEE),
    "GET /api/channels": _rule(_P.SEE),
    "POST /api/channels/{kind}/{name}/pause": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/channels/{kind}/{name}/resume": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/channels/{kind}/{name}/test": _rule(_P.OPERATE, site=True, body={}),
    "GET /api/connections": _rule(_P.CONNECT),
    "GET /api/connections/{kind}/{name}": _rule(_P.CONNECT),
    "POST /api/connections/{kind}/check": _rule(_P.CONNECT, body={"table": {}}),
    "POST /api/connections/{kind}/try": _rule(_P.CONNECT, body={"table": {}}),
    "PUT /api/connections/{kind}/{name}": _rule(_P.CONNECT, body={}),
    "POST /api/connections/{kind}/{name}/rollback": _rule(_P.CONNECT, body={}),
    "POST /api/messages/search": _rule(_P.SEE, body={}),
    "POST /api/messages/replay": _rule(_P.OPERATE, body={"state": "parked"}),
    "GET /api/messages/{message_id}": _rule(_P.SEE, site=True),
    "GET /api/messages/{message_id}/content": _rule(_P.BODIES, site=True),
    "POST /api/messages/{message_id}/replay": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/messages/{message_id}/cancel": _rule(_P.OPERATE, site=True, body={}),
    "GET /api/messages/{message_id}/sheet": _rule(_P.EDIT, _P.BODIES, site=True),
    "POST /api/messages/{message_id}/check": _rule(_P.EDIT, _P.BODIES, site=True, body=EDITED),
    "POST /api/messages/{message_id}/send-again": _rule(
        _P.EDIT, _P.BODIES, site=True, body={**EDITED, "reason": "try"}
    ),
    "POST /api/deliveries/search": _rule(_P.SEE, body={}),
    "GET /api/deliveries/{delivery_id}": _rule(_P.SEE, site=True),
    "GET /api/deliveries/{delivery_id}/content": _rule(_P.BODIES, site=True),
    "POST /api/deliveries/{delivery_id}/retry": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/deliveries/{delivery_id}/skip": _rule(_P.OPERATE, site=True, body={}),
    "POST /api/orders/find": _rule(_P.FIND, body={"accession": "A2"}),
    "GET /api/concerns": _rule(_P.SEE),
    "POST /api/concerns/{kind}/{row_id}/seen": _rule(_P.OPERATE, site=True, body={}),
    "GET /api/unknown-codes": _rule(_P.AUTHOR),
    "POST /api/unknown-codes/leave": _rule(_P.AUTHOR, body={}),
    "PUT /api/mappings/{name}/codes/{table}": _rule(_P.AUTHOR, body={}),
    "GET /api/interfaces/export": _rule(_P.AUTHOR),
    "POST /api/interfaces/look": _rule(_P.AUTHOR, _P.CODE, _P.CONNECT, body={"zip": "AAAA"}),
    "POST /api/interfaces/import": _rule(_P.AUTHOR, _P.CODE, _P.CONNECT, body={}),
    "GET /api/deeds": _rule(_P.AUDIT),
    "GET /api/sent": _rule(_P.AUDIT),
    "POST /api/audit/verify": _rule(_P.AUDIT, body={}),
    "GET /api/sites/{site}/audit": _rule(_P.AUDIT, site=True),
    "GET /api/sites": _rule(_P.FIND),
    "POST /api/sites": _rule(_P.ADMINISTER, body={"SiteID": "SITE3"}, unlimited=True),
    "GET /api/sites/{site}": _rule(_P.ADMINISTER, site=True),
    "PATCH /api/sites/{site}": _rule(_P.ADMINISTER, site=True, body={"name": "Renamed"}),
    "GET /api/sites/{site}/{what}": _rule(_P.ADMINISTER, site=True),
    "PUT /api/sites/{site}/templates/{number}": _rule(
        _P.ADMINISTER, site=True, body={"name": "CT", "text": "Findings:"}
    ),
    "GET /api/sites/{site}/templates/{number}/mrrt": _rule(_P.ADMINISTER, site=True),
    "PUT /api/sites/{site}/templates/{number}/mrrt": _rule(
        _P.ADMINISTER, site=True, body={"html": "<html></html>"}
    ),
    "PUT /api/sites/{site}/code-map": _rule(_P.ADMINISTER, site=True, body={"csv": ""}),
    "DELETE /api/sites/{site}/templates/{number}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/prelim-groups": _rule(
        _P.ADMINISTER, site=True, body={"name": "Residents", "tags": ["R1"]}
    ),
    "DELETE /api/sites/{site}/prelim-groups/{name}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/users": _rule(
        _P.ADMINISTER, site=True, body={"email": "new@site1.test", "name": "New"}
    ),
    "DELETE /api/sites/{site}/users/{email}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/tokens": _rule(
        _P.ADMINISTER, site=True, body={"email": "reader@site1.test"}
    ),
    "DELETE /api/sites/{site}/tokens/{token}": _rule(_P.ADMINISTER, site=True),
    "POST /api/sites/{site}/worklist": _rule(_P.FIND, site=True, body={}),
    "GET /api/grants": _rule(_P.GRANT),
    "PUT /api/grants/{email_or_id}": _rule(_P.GRANT, body={"role": "viewer"}),
    "DELETE /api/grants/{email_or_id}": _rule(_P.GRANT),
    "POST /api/people/{email_or_id}/enrolment": _rule(_P.GRANT, body={}),
    "POST /api/people/{email_or_id}/disable": _rule(_P.GRANT, body={}),
    "POST /api/people/{email_or_id}/enable": _rule(_P.GRANT, body={}),
    "GET /api/mappings": _rule(_P.AUTHOR),
    "GET /api/mapping-schema": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}": _rule(_P.AUTHOR),
    "PUT /api/mappings/{name}/draft": _rule(_P.AUTHOR, body={}),
    "DELETE /api/mappings/{name}/draft": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}/history": _rule(_P.AUTHOR),
    "GET /api/mappings/{name}/versions/{version}": _rule(_P.AUTHOR),
    "POST /api/mappings/{name}/activate": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/rollback": _rule(_P.AUTHOR, body={}),
    "PUT /api/reading/{listener}": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/stored": _rule(_P.AUTHOR, _P.BODIES, body={}),
    "POST /api/mapping-material": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/try": _rule(_P.AUTHOR, body={}),
    "POST /api/mappings/{name}/compare": _rule(_P.AUTHOR, body={}),
    "POST /api/mapping-learn": _rule(_P.AUTHOR, body={}),
}


def path_of(route: str, own: dict[str, str]) -> str:
    """Return the path of a route with the parameters of a site."""
    same = {
        "what": "users",
        "number": "1",
        "token": "999",
        "email": "unknown@site1.test",
        "email_or_id": "unknown@site1.test",
        "listener": "orders",
        "version": "0" * 16,
        "kind": "listener",
        "name": "orders",
        "table": "sex",
        "row_id": "1",
    }
    return route.partition(" ")[2].format(**{**same, **own})
