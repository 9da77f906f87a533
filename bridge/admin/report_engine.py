"""The administrative endpoints of the report engine, for the console and for commands."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Final, TypeVar
from urllib.parse import quote

from bridge.admin.access.grants import GrantedRoles
from bridge.admin.errors import EngineRefusal, EngineUnreachable
from bridge.contract.responses import AccountInfo, EnrolmentLink, ReaderCounts, iso, moment
from bridge.engine_client.client import EngineClient, InProcess
from bridge.engine_client.errors import EngineFailure
from bridge.errors import BridgeError
from bridge.report_engine import engine_http, engine_tokens, operator_application
from bridge.store.databases import engine_is_ready, migrate_engine, open_engine_database
from config import Settings

T = TypeVar("T")
_SUCCESS: Final = range(200, 300)
_NOT_FOUND: Final = 404


class ReportEngine:
    """
    Calls the administrative endpoints of the report engine with the bridge's own token.

    Raises EngineRefusal with the engine's code and text, EngineUnreachable if it does not respond.
    """

    def __init__(self, client: EngineClient) -> None:
        self.client = client

    async def call(
        self, method: str, *path: str, body: object = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """
        Call an administrative endpoint and return the parsed response body.

        `path` contains the parts of the path, unquoted; the second one is a SiteID.
        """
        site = path[1] if len(path) > 1 else ""
        quoted = "".join(f"/{quote(part, safe='')}" for part in path)
        with _answered():
            return _successful(
                *await self.client.administer(method, quoted, site, body=body, query=query)
            )

    async def audit_events(self, site: str, criteria: Mapping[str, Any]) -> list[dict[str, Any]]:
        """
        List audit events of a site, newest first; `criteria` are the endpoint's parameters.

        Times are in ms here, and ISO 8601 in the request and the response.
        """
        span = {name: iso(criteria[name]) for name in ("since", "until") if name in criteria}
        answer = await self.call("GET", "sites", site, "audit", query={**criteria, **span})
        with _answered():
            return [{**event, "at": moment(event["at"])} for event in answer["events"]]

    async def verify_audit(self) -> dict[str, Any]:
        """Verify the whole hash chain of the audit trail."""
        verdict: dict[str, Any] = await self.call("GET", "audit", "verdict")
        return verdict

    async def account(self, email_or_id: str) -> AccountInfo | None:
        """Find an account by its e-mail address or its id."""
        is_id = email_or_id.isascii() and email_or_id.isdigit()  # else an e-mail address
        query = {"accountId": email_or_id} if is_id else {"email": email_or_id}
        with _answered():
            status, answer = await self.client.administer_account("GET", query=query)
            if status == _NOT_FOUND:
                return None
            return AccountInfo.model_validate(_successful(status, answer))

    async def enrol(
        self, account_id: str, *, second_factor: bool, end_tokens: bool
    ) -> EnrolmentLink:
        """End password, second factor and sessions of an account; return an enrolment link."""
        body = {"accountId": account_id, "secondFactor": second_factor, "endTokens": end_tokens}
        with _answered():
            return EnrolmentLink.model_validate(await self._account("/enrolment", body))

    async def require_second_factor(self, account_id: str, *, required: bool) -> None:
        await self._account("/second-factor", {"accountId": account_id, "required": required})

    async def set_disabled(self, account_id: str, *, disabled: bool) -> None:
        await self._account("/disable" if disabled else "/enable", {"accountId": account_id})

    async def sites(self) -> frozenset[str]:
        return frozenset(str(site["SiteID"]) for site in await self.call("GET", "sites"))

    async def readers(self) -> ReaderCounts:
        """Count the readers that have no role in the console."""
        with _answered():
            answer = _successful(*await self.client.administer_account("GET", "/readers"))
            return ReaderCounts.model_validate(answer)

    async def reserve(self, email: str) -> AccountInfo:
        """
        Return the account of an address; create one without sites if there is none.

        Raises EngineRefusal except for a command with the internal engine.
        """
        answer = await self.call("POST", "operator", "accounts", body={"email": email})
        with _answered():
            return AccountInfo.model_validate(answer)

    async def _account(self, path: str, body: Mapping[str, Any]) -> Any:
        with _answered():
            return _successful(*await self.client.administer_account("POST", path, body=body))


@contextmanager
def _answered() -> Iterator[None]:
    """Raise EngineUnreachable without a response, and for one that cannot be read."""
    try:
        yield
    except (EngineFailure, ValueError):  # of pydantic, or of a time
        raise EngineUnreachable from None


def _successful(status: int, answer: Any) -> Any:
    """Return the body of a successful response. Raises EngineRefusal."""
    if status in _SUCCESS:
        return answer
    problem = answer if isinstance(answer, dict) else {}
    code, detail = problem.get("code", f"http_{status}"), problem.get("detail", "")
    faults = problem.get("errors") or [{}]
    raise EngineRefusal(status, str(code), str(detail), str(faults[0].get("pointer", "")))


class NoInternalEngine(BridgeError):
    """The data directory uses a report engine of somebody else."""

    def __init__(self) -> None:
        super().__init__("sites, users and tokens belong to the service at engine.base_url")


class CommandEngine:
    """
    The report engine for a command: the internal one in this process, or that of the settings.

    In this process the command is the operator of the data directory: it needs no token, and the
    engine records its changes as those of the command. The service may run, or not.
    """

    def __init__(self, runner: asyncio.Runner, engine: ReportEngine) -> None:
        self._runner = runner
        self.engine = engine

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine, in the context of the caller: the audit recording is part of it."""
        return self._runner.run(work, context=copy_context())

    def call(
        self, method: str, *path: str, body: object = None, query: Mapping[str, Any] | None = None
    ) -> Any:
        """Call as `ReportEngine.call`."""
        return self.run(self.engine.call(method, *path, body=body, query=query))


class EngineNotReady(BridgeError):
    """The database of the internal engine does not exist, or is not migrated."""

    def __init__(self) -> None:
        super().__init__("the database of the report engine is not migrated")


@contextmanager
def internal_engine(settings: Settings, *, migrate: bool = True) -> Iterator[CommandEngine]:
    """
    Open the internal engine for a command, after a migration of its database.

    With `migrate` false the database stays as it is. Raises NoInternalEngine, EngineNotReady.
    """
    if not settings.engine.is_internal:
        raise NoInternalEngine
    database = open_engine_database(settings)
    try:
        if migrate:
            migrate_engine(database)
        elif not engine_is_ready(database):
            raise EngineNotReady
        roles = GrantedRoles(settings)
        application = operator_application(settings, database, _now_ms, roles)
        http = InProcess(application, settings.http.public_url)
        with asyncio.Runner() as runner:
            try:
                yield CommandEngine(runner, ReportEngine(EngineClient(http, "")))
            finally:
                runner.run(http.aclose())
                runner.run(application.state.engine.stop())
    finally:
        database.dispose()


@contextmanager
def report_engine(settings: Settings) -> Iterator[CommandEngine]:
    """Open the report engine of the settings for a command."""
    if settings.engine.is_internal:
        with internal_engine(settings) as opened:
            yield opened
        return
    http = engine_http(settings, None)
    with asyncio.Runner() as runner:
        try:
            yield CommandEngine(runner, ReportEngine(EngineClient(http, engine_tokens(settings))))
        finally:
            runner.run(http.aclose())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
