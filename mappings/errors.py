"""
What can go wrong with definitions (not with messages: those are `mappings.hl7.refusals`).

* MappingError
    * MappingErrors    mistakes in definition files, all at once
    * HookFailed       an administrator's Python hook raised; the message is parked or refused
    * NotRenderable    an outbound definition has nothing for this event
"""

from collections.abc import Sequence

from mappings.events import Issue


class MappingError(Exception):
    """Root of what this package raises about definitions."""


class MappingErrors(MappingError):  # noqa: N818  # several errors, that is the point
    """A definition cannot be used; `issues` says why, every mistake with its place."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class HookFailed(MappingError):  # noqa: N818  # says what happened
    """A hook raised. Only its name and the exception's class are told: no values."""

    def __init__(self, hook: str, cause: BaseException) -> None:
        self.hook = hook
        super().__init__(f"hook {hook} raised {type(cause).__name__}")


class NotRenderable(MappingError):  # noqa: N818  # says what happened
    """The definition renders no message for this event."""

    def __init__(self, name: str, event: str) -> None:
        super().__init__(f"mapping {name} renders nothing for event {event}")
