"""The signed-in user."""

from typing import Any

from fastapi import APIRouter

from bridge.console.http.guard import CallDep, ConsoleRoute

router = APIRouter(prefix="/api", route_class=ConsoleRoute)


@router.get("/me")
async def me(call: CallDep) -> dict[str, Any]:
    """Return the user with role, permissions and sites (null: all sites)."""
    grant = call.user.grant
    sites = None if grant.visible_sites is None else sorted(grant.visible_sites)
    return {
        "email": grant.email,
        "name": call.user.name,
        "theme": call.user.theme,
        "role": grant.role,
        "permissions": sorted(grant.permissions),
        "sites": sites,
    }
