"""
Errors of definitions. Errors of messages are `mappings.hl7.refusals`.

* MappingError
    * MappingErrors        all errors of a definition
    * RuleFailed           a rule failed for a message, which is parked or refused
        * HookFailed       a Python hook raised an exception or was stopped
        * CodeRefused      the code table of the receiver lacks a code of a result
    * NotRenderable        an outbound definition has no message for an event
"""

from collections.abc import Sequence

from mappings.language.diagnostics import Issue


class MappingError(Exception):
    """Base class of the errors of definitions."""


class MappingErrors(MappingError):  # noqa: N818  # a list of errors
    """A definition cannot be used; `issues` has each error with its location."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class RuleFailed(MappingError):  # noqa: N818  # named for what happens
    """A rule failed for a message. The text contains no values."""


class HookFailed(RuleFailed):
    """A hook raised an exception or was stopped. The text names it and the exception's class."""

    def __init__(self, hook: str, what: str) -> None:
        self.hook = hook
        super().__init__(f"hook {hook} {what}")


class CodeRefused(RuleFailed):
    """A code table with `unknown: refuse` lacks a result's code. The text names table and place."""

    def __init__(self, table: str, place: str) -> None:
        super().__init__(f"code table {table} has no entry for the value of {place}")


class NotRenderable(MappingError):  # noqa: N818  # named for what happens
    """The definition has no message for an event."""

    def __init__(self, name: str, event: str) -> None:
        super().__init__(f"mapping {name} renders nothing for event {event}")
