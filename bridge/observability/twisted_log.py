"""
Twisted's own log lines, through the same gate as everybody else's.

A failure is logged as its class and place, another event as the template of its text. The message
of an exception and the fields of an event are left out: they may hold patient data.
"""

from typing import Any

import structlog
from twisted.logger import LogLevel, globalLogBeginner
from twisted.python.failure import Failure

from bridge.observability.redaction import describe

_NO_TEXT = "an event without an exception; its text is not logged"


class SafeObserver:
    """Keeps warnings and worse."""

    def __init__(self) -> None:
        """Log under Twisted's name."""
        self._log = structlog.get_logger("twisted")

    def __call__(self, event: dict[str, Any]) -> None:
        """Log the namespace, and what happened; never an empty line."""
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
    template = event.get("log_format")
    own = namespace.split(".", 1)[0] == "twisted" and "message" not in event
    return template if own and isinstance(template, str) and template else _NO_TEXT


def observe_twisted() -> None:
    """Take over Twisted's log; once a process."""
    globalLogBeginner.beginLoggingTo(
        [SafeObserver()],  # type: ignore[list-item]  # zope's interfaces are no types
        redirectStandardIO=False,
    )
