"""What can go wrong with definitions (not with messages: those are `mappings.hl7.refusals`).

* MappingError
    * MappingErrors    mistakes in definition files, all at once
    * RuleFailed       a rule could not be followed; the message is parked or refused
        * HookFailed       an administrator's Python hook raised, or took too long
        * CodeRefused      a result has a code that its receiver's table lacks
    * NotRenderable    an outbound definition has nothing for this event
"""

from collections.abc import Sequence

from mappings.language.diagnostics import Issue


class MappingError(Exception):
    """Root of what this package raises about definitions."""


class MappingErrors(MappingError):  # noqa: N818  # several errors, that is the point
    """A definition cannot be used; `issues` says why, every mistake with its place."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class RuleFailed(MappingError):  # noqa: N818  # says what happened
    """A rule could not be followed for a message. Tells no values."""


class HookFailed(RuleFailed):
    """A hook raised, or was stopped. Only its name and the exception's class are told."""

    def __init__(self, hook: str, what: str) -> None:
        self.hook = hook
        super().__init__(f"hook {hook} {what}")


class CodeRefused(RuleFailed):
    """A code table with `unknown: refuse` lacks a code of a result. Tells table and place only."""

    def __init__(self, table: str, place: str) -> None:
        super().__init__(f"code table {table} has no entry for the value of {place}")


class NotRenderable(MappingError):  # noqa: N818  # says what happened
    """The definition renders no message for this event."""

    def __init__(self, name: str, event: str) -> None:
        super().__init__(f"mapping {name} renders nothing for event {event}")
