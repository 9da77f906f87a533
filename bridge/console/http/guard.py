"""
Authentication, CSRF protection, permissions and audit events of the console's endpoints.

A browser sends its cookies with every request. So `authenticate` requires that a request which
changes data comes from a page of this service. It checks headers that no web page can set.

Errors about the HTTP request itself are here; `bridge.admin.errors` has the others.
"""

import secrets
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Annotated, Any, Final, TypeVar

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from typing_extensions import override

from bridge.admin.access import grants
from bridge.admin.access.permissions import ConsoleSession, Grant, Permission, admit, require_fresh
from bridge.admin.audit_events import target_of
from bridge.admin.errors import (
    EngineRefusal,
    EngineUnreachable,
    NoSuchItem,
    OperatorError,
    Overloaded,
    PermissionDenied,
)
from bridge.audit import outbox
from bridge.audit.events import AuditEvent, AuditOrigin, Outcome, code_of
from bridge.audit.route_actions import CONSOLE, action_of
from bridge.console.context import ConsoleContext
from bridge.contract.responses import PROBLEM_TYPE
from bridge.engine_client.errors import EngineFailure
from bridge.errors import BridgeError
from bridge.executors import CONSOLE_THREADS, PoolFull
from bridge.web.bodies import (
    SAFE_METHODS,
    BodyTooLarge,
    BoundedRequest,
    BoundedRoute,
    BudgetExhausted,
    has_nul,
    is_own_page,
)
from parsers.limits import DocumentRefused

T = TypeVar("T")

_MAX_NAME = 64  # characters of a name in an event's target


class SignInRequired(OperatorError):
    status = 401
    code = "signed_out"

    def __init__(self) -> None:
        super().__init__("sign in to do this")


class ForeignOrigin(OperatorError):
    """A request that changes data did not come from a page of this service (CSRF)."""

    status = 403
    code = "foreign_origin"

    def __init__(self) -> None:
        super().__init__("this request did not come from a page of this service")


class InvalidJson(OperatorError):
    """The body is not JSON, or exceeds a limit of JSON bodies."""

    status = 400
    code = "bad_request"


class RequestTooLarge(OperatorError):
    status = 413
    code = "too_large"

    def __init__(self) -> None:
        super().__init__("the request is too large")


@dataclass(frozen=True, slots=True)
class ConsoleUser:
    """The user of a request; `authenticated_at` (ms): when they last confirmed the password."""

    grant: Grant
    name: str
    theme: str
    authenticated_at: int

    @property
    def reads_content(self) -> bool:
        """Whether the user may read content, and so the texts of receivers."""
        return Permission.BODIES in self.grant.permissions


def context_of(request: Request) -> ConsoleContext:
    context: ConsoleContext = request.app.state.context
    return context


@dataclass(frozen=True, slots=True)
class ConsoleCall:
    """A call of an endpoint. `ConsoleRoute` authenticated the user before it read the body."""

    request: Request
    user: ConsoleUser
    context: ConsoleContext


async def _call(request: Request) -> ConsoleCall:
    return ConsoleCall(request, request.state.user, context_of(request))


CallDep = Annotated[ConsoleCall, Depends(_call)]


async def authenticate(request: Request) -> ConsoleUser:
    """
    Return the user of a request.

    Raises SignInRequired, PermissionDenied, SessionRefused, ForeignOrigin, EngineUnreachable.
    """
    context = context_of(request)
    unattended = "x-unattended" in request.headers
    try:
        user = await context.engine.client.signed_in_user(
            request.headers.get("cookie", ""), unattended=unattended
        )
    except EngineFailure:
        raise EngineUnreachable from None
    if user is None:
        raise SignInRequired
    request.state.user_email = user.email
    if request.method not in SAFE_METHODS and not is_own_page(
        request.headers, request.headers.get("host", "").lower()
    ):
        raise ForeignOrigin
    grant = await CONSOLE_THREADS.run(grants.active_grant_of, context.database, user.account_id)
    if grant is None:
        raise PermissionDenied(Permission.SEE)
    session = ConsoleSession(user.site, user.authenticated_at, user.second_factor)
    admitted = admit(grant, session, second_factor=context.second_factor)
    return ConsoleUser(
        replace(admitted, email=user.email),
        user.name,
        user.theme,
        user.authenticated_at,
    )


@dataclass(frozen=True, slots=True)
class AuditedAction:
    """
    An action with its audit event and its conditions.

    `sites` returns the sites of the target, or raises NoSuchItem; None: the target has no site.
    `rule` raises if a further rule forbids the action. `fresh`: the user must have confirmed the
    password within the last ten minutes. `is_reading`: the action reads a part of its subject, and
    has one event with other parts that are read within five minutes.
    """

    permissions: tuple[Permission, ...]
    action: str
    subject: str = ""
    sites: Callable[[], Collection[str]] | None = None
    reason: str = ""
    rule: Callable[[], None] = lambda: None
    fresh: Callable[[], bool] = lambda: False
    is_reading: bool = False


def always_fresh() -> bool:
    """Require a recently confirmed password in any case; a value for `AuditedAction.fresh`."""
    return True


async def run_audited(call: ConsoleCall, action: AuditedAction, work: Callable[[], T]) -> T:
    """
    Check the conditions of an action, run it on a thread, and record its outcome.

    The audit event is stored before the result is returned. If it cannot be stored, the call
    fails.
    """
    context = call.context
    call.request.state.is_recorded = True

    def run() -> T:
        event = _event_of(call, action)
        with outbox.recorded(context.database, event, context.clock()) as recording:
            recording.describe(site_id=_require_conditions(call, action) or None)
            return work()

    return await CONSOLE_THREADS.run(run)


async def await_audited(
    call: ConsoleCall, action: AuditedAction, work: Callable[[], Awaitable[T]]
) -> T:
    """Do the same as `run_audited` for a coroutine, such as a call to the report engine."""
    database, now = call.context.database, call.context.clock()
    call.request.state.is_recorded = True
    recording = outbox.Recording(_event_of(call, action))
    try:
        site = await CONSOLE_THREADS.run(_require_conditions, call, action)
        recording.describe(site_id=site or None)
        with recording.enqueued(database, now):
            result = await _engine_result(work)
    except Exception as error:
        await CONSOLE_THREADS.run(recording.fail, database, error, now)
        raise
    await CONSOLE_THREADS.run(recording.finish, database, now)
    return result


async def record_refusal(request: Request, code: str) -> None:
    """
    Record a request that was refused before `run_audited` recorded its action.

    The action is that of the route. Requests that only read, and requests without a signed-in
    user, leave no event.
    """
    email = getattr(request.state, "user_email", "")
    if not email or request.method in SAFE_METHODS or hasattr(request.state, "is_recorded"):
        return
    context, action = context_of(request), action_of(CONSOLE, request.scope, " ")
    event = _event(request, email, action, _target(request), code=code)

    def store() -> None:
        with context.database.write() as connection:
            outbox.add(connection, event, context.clock())

    await CONSOLE_THREADS.run(store)


def _target(request: Request) -> str:
    """Name the target by the path parameters; accounts and e-mail addresses are `user`."""
    kinds = {"email_or_id": "user", "email": "user"}
    return ", ".join(
        f"{kinds.get(name, name)} {str(value)[:_MAX_NAME]}"
        for name, value in request.path_params.items()
    )


async def _engine_result(work: Callable[[], Awaitable[T]]) -> T:
    """Turn failures of the report engine into errors of the console."""
    try:
        return await work()
    except EngineFailure as failure:
        if failure.status is None:
            raise EngineUnreachable from None
        raise EngineRefusal(failure.status, failure.code) from None


def require_on_site(user: ConsoleUser, permission: Permission, site: str) -> None:
    """Raise PermissionDenied or NoSuchItem unless the user has a permission on a site."""
    user.grant.require(permission)
    require_sites(user, [site])


def require_sites(user: ConsoleUser, sites: Collection[str]) -> None:
    """Raise NoSuchItem for an item of sites that the user may not see."""
    if not user.grant.sees(sites):
        raise NoSuchItem


def _require_conditions(call: ConsoleCall, action: AuditedAction) -> str:
    """Check the conditions of an action; return its site, '' if it has none or several."""
    for permission in action.permissions:
        call.user.grant.require(permission)
    sites: Collection[str] = ()
    if action.sites is not None:
        sites = action.sites()
        require_sites(call.user, sites)
    action.rule()
    if action.fresh():
        require_fresh(call.user.authenticated_at, call.context.clock())
    named = set(sites) - {"*"}
    return named.pop() if len(named) == 1 else ""


def _event_of(call: ConsoleCall, action: AuditedAction) -> AuditEvent:
    email = call.user.grant.email
    event = _event(call.request, email, action.action, action.subject, reason=action.reason)
    if not action.is_reading:
        return replace(event, event_id=secrets.token_hex(16))
    reading = (email, event.source, action.action, action.subject)
    context = call.context
    return replace(event, event_id=context.readings.event_id(reading, context.clock()))


def _event(
    request: Request, email: str, action: str, subject: str, *, code: str = "", reason: str = ""
) -> AuditEvent:
    """
    Return the event of an action; `code` is that of its refusal, `subject` is like `message 17`.

    Events name rows, users, sites, codes and the reason that the user gave. They contain neither
    search terms nor message content.
    """
    details = {"reason": reason} if reason else {}
    return AuditEvent(
        action,
        outcome=Outcome.REFUSED if code else Outcome.SUCCESS,
        details={**details, "code": code} if code else details,
        actor=email,
        origin=AuditOrigin.CONSOLE,
        source=_client_address(request),
        target=target_of(subject),
    )


def _client_address(request: Request) -> str:
    peer = request.client.host if request.client else ""
    return context_of(request).proxies.client(request.headers, peer)


LIMIT = 2**20
"""The maximum size of a body, in bytes."""

LARGE_LIMIT = 20 * 2**20
"""The maximum size of a body with definitions, packages or a message, which has up to 16 MiB."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ConsoleRoute(BoundedRoute):
    """A route for users with a console role; `request.state.user` is the user."""

    large_for: frozenset[Permission] | None = None
    """The permissions that a user needs to send `LARGE_LIMIT` bytes; None: nobody may."""

    @override
    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def recorded(request: Request) -> Response:
            if has_nul(request.scope):  # first: an event with its target could not be stored
                return problem_response(400, "bad_request", "the request line has a NUL character")
            try:
                return await handler(request)
            except RequestValidationError:
                await record_refusal(request, "bad_request")
                raise
            except BridgeError as error:
                await record_refusal(request, code_of(error))
                raise
            except ClientDisconnect:  # there is no client to respond to
                return Response(status_code=400)

        return recorded

    @override
    async def admit(self, request: Request) -> None:
        request.state.user = await authenticate(request)

    @override
    @contextmanager
    def bounded(self, request: Request) -> Iterator[BoundedRequest]:
        permissions = request.state.user.grant.permissions
        large = self.large_for is not None and self.large_for <= permissions
        try:
            with BoundedRequest(request, LARGE_LIMIT if large else LIMIT) as bounded:
                yield bounded
        except BodyTooLarge:
            raise RequestTooLarge from None
        except (BudgetExhausted, PoolFull):
            raise Overloaded from None

    @override
    async def read_body(self, request: BoundedRequest) -> None:
        """Read the body here, because FastAPI turns every error while reading into a 400."""
        if self.body_field is not None and await request.body():
            try:
                await request.json()
            except DocumentRefused as refusal:
                raise InvalidJson(refusal.reason) from None


class MessageRoute(ConsoleRoute):
    large_for = frozenset({Permission.EDIT, Permission.BODIES})


class AuthoringRoute(ConsoleRoute):
    """A route that receives definitions, samples or interface packages."""

    large_for = frozenset({Permission.AUTHOR})


HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class UncachedJson(JSONResponse):
    """A JSON response that neither browsers nor proxies may store."""

    def __init__(self, content: Any, status_code: int = 200, **more: Any) -> None:
        super().__init__(content, status_code, HEADERS, **more)


def problem_response(
    status: int, code: str, detail: str, more: Mapping[str, Any] = MappingProxyType({})
) -> Response:
    """Return an error as problem details (RFC 9457)."""
    body = {**more, "type": "about:blank", "status": status, "code": code, "detail": detail}
    return JSONResponse(body, status, HEADERS, media_type=PROBLEM_TYPE)
