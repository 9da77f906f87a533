"""The administrative endpoints once more, for administrators who are signed in to the app.

The same handlers, that check the caller's role on the site by themselves; only the door
is another: the account's cookie instead of a token.
"""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from bridge.engine.http.routes.admin import administration, macros, site_files
from bridge.engine.http.sign_in.account_session import AccountRoute

PREFIX = "/reporting/api/account"

router = APIRouter(include_in_schema=False)

for _given in (
    *administration.router.routes,
    *site_files.router.routes,
    *macros.router.routes,
):
    if isinstance(_given, APIRoute):
        router.add_api_route(
            PREFIX + _given.path.removeprefix("/api"),
            _given.endpoint,
            methods=sorted(_given.methods or ()),
            status_code=_given.status_code,
            route_class_override=AccountRoute,
            response_model=None,
        )
