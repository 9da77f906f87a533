"""`/healthz`, `/readyz` and `/docs`, without authentication."""

from fastapi import APIRouter, Request
from sqlalchemy import text
from starlette.responses import JSONResponse, Response

from bridge.engine.http.engine_state import engine_of
from bridge.engine.http.pages.html_pages import docs_page
from bridge.store.errors import StoreError

router = APIRouter(tags=["Health"])


@router.get("/healthz", response_model=dict[str, str])
async def healthz() -> Response:
    """Answer 200 while the process runs."""
    return JSONResponse({"status": "ok"})


@router.get("/readyz", response_model=dict[str, str], responses={503: {"description": "Not yet"}})
async def readyz(request: Request) -> Response:
    """Answer 200 if the database responds, else 503."""
    engine = engine_of(request)
    try:
        await engine.work.read(lambda connection: connection.execute(text("SELECT 1")).scalar())
    except StoreError:
        return JSONResponse({"status": "unavailable"}, 503)
    return JSONResponse({"status": "stopping"} if engine.stopping else {"status": "ready"})


@router.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
async def docs(request: Request) -> Response:
    """Return the page of the HTTP interface."""
    return docs_page(engine_of(request).settings)
