"""Refusals of what modalities send: status, attribute and comment of a DIMSE response. Pure."""

from enum import IntEnum
from typing import Final

from pydicom.datadict import dictionary_description, tag_for_keyword
from pydicom.dataset import Dataset
from pydicom.tag import Tag

_MAX_COMMENT: Final = 64  # PS3.7 annex E.1, LO


class Status(IntEnum):
    """Statuses of N-CREATE, N-SET and C-STORE (PS3.7 annex C, PS3.4 B.2.3 and F.7.2)."""

    SUCCESS = 0x0000
    INVALID_VALUE = 0x0106
    PROCESSING_FAILURE = 0x0110
    DUPLICATE_INSTANCE = 0x0111
    NO_SUCH_INSTANCE = 0x0112
    CLASS_CONFLICT = 0x0119
    MISSING_ATTRIBUTE = 0x0120
    MISSING_VALUE = 0x0121
    RESOURCE_LIMIT = 0x0213
    OUT_OF_RESOURCES = 0xA700
    NOT_THE_SOP_CLASS = 0xA900
    CANNOT_UNDERSTAND = 0xC000


MAY_NOT_BE_UPDATED: Final = 0xA710
"""Error ID: the performed procedure step may no longer be updated (PS3.4 table F.7.2-2)."""


class Refused(Exception):
    """
    A message that is refused. `keyword` names the offending attribute, '' if there is none.

    The comment names attributes and limits, never a value that was sent.
    """

    def __init__(
        self, status: Status, comment: str, keyword: str = "", error_id: int | None = None
    ) -> None:
        self.status, self.keyword, self.error_id = status, keyword, error_id
        self.comment = f"{_named(keyword)}: {comment}" if keyword else comment
        super().__init__(f"{status:04X} {self.comment}")

    def data_set(self, *, has_element: bool = False) -> Dataset:
        """Return the elements of the response (PS3.7 annex E); C-STORE has the offending one."""
        found = Dataset()
        found.Status = int(self.status)
        found.ErrorComment = self.comment[:_MAX_COMMENT]
        if has_element and (tag := tag_for_keyword(self.keyword)) is not None:
            found.OffendingElement = [Tag(tag)]
        if self.error_id is not None:
            found.ErrorID = self.error_id
        return found


def _named(keyword: str) -> str:
    tag = tag_for_keyword(keyword)
    assert tag is not None  # noqa: S101  # our own keywords
    return f"{Tag(tag)} {dictionary_description(tag)}"
