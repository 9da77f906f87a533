"""
The administrative routes for administrators who are signed in to the app.

The handlers are those of `/api/admin` and check the role on the site. Only the authentication
differs: the account cookie instead of a token.
"""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from bridge.engine.http.routes.admin import administration, macros, site_files
from bridge.engine.http.sign_in.account_session import AccountRoute

PREFIX = "/reporting/api/account"

router = APIRouter(include_in_schema=False)

for _route in (
    *administration.router.routes,
    *site_files.router.routes,
    *macros.router.routes,
):
    if isinstance(_route, APIRoute):
        router.add_api_route(
            PREFIX + _route.path.removeprefix("/api"),
            _route.endpoint,
            methods=sorted(_route.methods or ()),
            status_code=_route.status_code,
            route_class_override=AccountRoute,
            response_model=None,
        )
