"""
Errors of composing a message.

* CompositionError
    * NoDefinitionForEvent   no mapping of the destination has a message for the event
    * ReportNotSigned        the report is not signed any more
    * UnmappedCodeRefused    a code is not in its code table, and the definition refuses it
    * ReportUnstable         the report changed each time it was read
    * StoredMessageDamaged   the stored message, or an earlier one, does not have its digest
    * NoStudy                an order of a report for a PACS has no StudyInstanceUID
    * NotInCharacterSet      the character set of a PACS lacks a character of the report
    * NoDocument             there is no DICOM object for the event
    * NothingToSend          there is nothing to send any more
        * NothingToRetract   the receiver never got the text that would be withdrawn
        * ReportGone         the report or addendum was deleted or recalled before it was sent
        * Superseded         the receiver has the same text, or a newer one
"""

from bridge.errors import BridgeError


class CompositionError(BridgeError):
    """No message can be composed, and another attempt would fail, too."""

    code = "not_composed"


class NoDefinitionForEvent(CompositionError):
    """No mapping of the destination has a message for an event."""

    code = "no_definition"

    def __init__(self, event: str) -> None:
        super().__init__(f"no definition has a message for {event}")


class ReportNotSigned(CompositionError):
    code = "not_signed"

    def __init__(self) -> None:
        super().__init__("the report is not signed any more")


class UnmappedCodeRefused(CompositionError):
    """A code is not in its code table, and the definition has `unknown: refuse`."""

    code = "unknown_code"


class ReportUnstable(CompositionError):
    """The report changed between the readings of its text and of its files."""

    code = "unsettled"

    def __init__(self) -> None:
        super().__init__("the report changed each time it was read")


class StoredMessageDamaged(CompositionError):
    """The stored bytes of a message have changed since it was composed."""

    code = "content_damaged"

    def __init__(self) -> None:
        super().__init__("a stored message does not have the digest with which it was stored")


class NoStudy(CompositionError):
    """An order has no StudyInstanceUID. A PACS would put the report into a study of its own."""

    code = "no_study"

    def __init__(self) -> None:
        super().__init__("an order of the report has no StudyInstanceUID")


class NotInCharacterSet(CompositionError):
    """A text cannot be written in the character set of the destination."""

    code = "character_set"

    def __init__(self, what: str, charset: str) -> None:
        super().__init__(f"{what} has a character that {charset} does not have")


class NoDocument(CompositionError):
    code = "no_document"

    def __init__(self) -> None:
        super().__init__("the forms of the destination have no document for this event")


class NothingToSend(CompositionError):
    """There is nothing to send any more, and no operator has to act."""


class NothingToRetract(NothingToSend):
    """The receiver never got the text that this delivery would withdraw."""

    code = "never_told"

    def __init__(self) -> None:
        super().__init__("the receiver never received the report")


class ReportGone(NothingToSend):
    """A preliminary report or early addendum was deleted or recalled before it was sent."""

    code = "gone"

    def __init__(self) -> None:
        super().__init__("the report or addendum was deleted or recalled")


class Superseded(NothingToSend):
    """The receiver has the same text, or a newer one, which this delivery would replace."""

    code = "superseded"

    def __init__(self) -> None:
        super().__init__("the receiver has this version or a newer one")
