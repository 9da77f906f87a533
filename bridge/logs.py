"""
Logging without patient data: structlog for our own lines, and filters for those of libraries.

Our lines have only fields of the allow-list. Lines of libraries lose query strings and quoted
parts, and lines about errors lose their arguments. An exception is logged by class and place,
without its message. A warning of Twisted is logged with its numbers and classes.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog
from twisted.logger import LogLevel, formatEvent, globalLogBeginner
from twisted.python.failure import Failure
from typing_extensions import override

from bridge.redaction import describe, safe_text, stack_frames

ALLOWED_FIELDS = frozenset(
    {
        # fields that structlog adds
        *("event", "level", "logger", "timestamp", "error", "trace"),
        # configured names and places
        *("listener", "destination", "connection", "peer", "site", "mapping", "version", "build"),
        *("message_id", "delivery_id", "report_id", "role", "job", "endpoint", "address", "file"),
        *("node", "place", "request_id"),
        # counts and durations
        *("count", "size", "attempts", "seconds", "cursor", "depth", "state", "limit", "setting"),
        # results
        *("code", "status", "failure", "reason", "action", "outcome", "trigger"),
    }
)
"""The fields that our lines may have. None of them contains a value of a message."""

QUIET_LOGGERS = ("httpx", "httpcore", "uvicorn.access", "uvicorn.error", "hl7apy", "alembic")


def keep_known_fields(
    _logger: Any, _method: str, line: MutableMapping[str, Any]
) -> Mapping[str, Any]:
    """Drop fields that are not on the allow-list, and add their number as `dropped_fields`."""
    error = line.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, tuple):
        error = error[1]
    if isinstance(error, BaseException):
        line["error"], line["trace"] = describe(error), stack_frames(error)
    unknown = [name for name in line if name not in ALLOWED_FIELDS]
    for name in unknown:
        del line[name]
    return {**line, "dropped_fields": len(unknown)} if unknown else line


class SafeFormatter(logging.Formatter):
    """Formats records of the standard `logging` module, without messages of exceptions."""

    def __init__(self, *, as_json: bool) -> None:
        """Render records like our own lines."""
        super().__init__()
        self._render = _renderer(as_json=as_json)

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return level, logger, place, and the text without quoted parts."""
        line: dict[str, Any] = {
            "event": _event_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": _moment(record.created),
        }
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            line["error"], line["trace"] = describe(error), stack_frames(error)
        return str(self._render(None, record.name, line))


def should_log(record: logging.LogRecord) -> bool:
    """True if to log a record: not those about cancelled tasks and clients that have gone."""
    if record.name == "asyncio" and record.msg == "socket.send() raised exception.":
        return False  # one for each write to a closed connection: clients could flood the log
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))


def _event_of(record: logging.LogRecord) -> str:
    """Return the text; for an error only its template, because arguments may quote a message."""
    if record.exc_info or record.levelno >= logging.ERROR:
        return safe_text(str(record.msg).split("\n", 1)[0] if record.args else "error")
    return safe_text(record.getMessage())


def _moment(seconds: float) -> str:
    """Format a time as structlog does."""
    written = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
    return written.replace("+00:00", "Z")


def _renderer(*, as_json: bool) -> structlog.typing.Processor:
    if as_json:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=False)


def configure(level: str = "INFO", *, as_json: bool = True, stream: TextIO | None = None) -> None:
    """Write our lines and those of libraries to `stream` (default: standard error)."""
    number = logging.getLevelNamesMapping()[level.upper()]
    target = sys.stderr if stream is None else stream
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            keep_known_fields,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _renderer(as_json=as_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=target),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(SafeFormatter(as_json=as_json))
    handler.addFilter(should_log)
    logging.basicConfig(handlers=[handler], level=number, force=True)
    for name in QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True


_NO_TEXT = "an event without an exception; its text is not logged"


class SafeObserver:
    """Logs warnings and errors of Twisted."""

    def __init__(self) -> None:
        """Use the logger `twisted`."""
        self._log = structlog.get_logger("twisted")

    def __call__(self, event: dict[str, Any]) -> None:
        """Log the namespace, and the exception or the text; never an empty line."""
        level = event.get("log_level", LogLevel.info)
        if level < LogLevel.warn:
            return
        namespace = str(event.get("log_namespace") or "twisted")
        self._log.warning("twisted", reason=namespace, error=_what_happened(event, namespace))


def _what_happened(event: dict[str, Any], namespace: str) -> str:
    failure = event.get("log_failure")
    value = failure.value if isinstance(failure, Failure) else None
    if isinstance(value, BaseException):
        return describe(value)
    # Only Twisted's own templates are constant; an event with `message` has a finished text.
    is_safe = namespace.split(".", 1)[0] == "twisted" and "message" not in event
    if not is_safe or not isinstance(event.get("log_format"), str):
        return _NO_TEXT
    return formatEvent({name: _safe_value(name, value) for name, value in event.items()})


_SAFE_TEXTS = frozenset({"log_format", "category", "filename", "warning"})
"""Members with texts of code: templates, and the members of a warning of Python."""


def _safe_value(name: str, value: Any) -> Any:
    """Return numbers, texts of code without their quoted parts, and of all else the class."""
    if isinstance(value, int | float):
        return value
    if name in _SAFE_TEXTS and isinstance(value, str | Warning):
        return safe_text(str(value).rpartition("/")[2] if name == "filename" else str(value))
    return "…" if isinstance(value, str) else type(value).__name__


def observe_twisted() -> None:
    """Redirect Twisted's log; call it once per process."""
    globalLogBeginner.beginLoggingTo(
        [SafeObserver()],  # type: ignore[list-item]  # zope's interfaces are no types
        redirectStandardIO=False,
    )
