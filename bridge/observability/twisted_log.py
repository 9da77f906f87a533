"""
Twisted's own log lines, through the same gate as everybody else's.

A failure is told by class and place; its message and Twisted's event fields are not.
"""

from typing import Any

import structlog
from twisted.logger import LogLevel, globalLogBeginner
from twisted.python.failure import Failure

from bridge.observability.redaction import describe


class SafeObserver:
    """Keeps warnings and worse."""

    def __init__(self) -> None:
        """Log under Twisted's name."""
        self._log = structlog.get_logger("twisted")

    def __call__(self, event: dict[str, Any]) -> None:
        """Tell namespace, level, and the class and place of a failure."""
        level = event.get("log_level", LogLevel.info)
        if level < LogLevel.warn:
            return
        failure = event.get("log_failure")
        value = failure.value if isinstance(failure, Failure) else None
        self._log.warning(
            "twisted",
            reason=str(event.get("log_namespace", "")),
            error=describe(value) if isinstance(value, BaseException) else "",
        )


def observe_twisted() -> None:
    """Take over Twisted's log; once a process."""
    globalLogBeginner.beginLoggingTo(
        [SafeObserver()],  # type: ignore[list-item]  # zope's interfaces are no types
        redirectStandardIO=False,
    )
