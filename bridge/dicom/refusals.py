"""Refusals of what modalities send: status, attribute and comment of a DIMSE response. Pure."""

from typing import Final

from pydicom.datadict import dictionary_description, tag_for_keyword
from pydicom.dataset import Dataset
from pydicom.tag import Tag

_MAX_COMMENT: Final = 64  # PS3.7 annex E.1, LO


class Refused(Exception):
    """
    A message that is refused. `keyword` names the offending attribute, '' if there is none.

    The comment names attributes and limits, never a value that was sent.
    """

    def __init__(
        self, status: int, comment: str, keyword: str = "", error_id: int | None = None
    ) -> None:
        self.status, self.keyword, self.error_id = status, keyword, error_id
        self.comment = f"{_named(keyword)}: {comment}" if keyword else comment
        super().__init__(f"{status:04X} {self.comment}")

    @property
    def code(self) -> str:
        """The status as metrics have it, or the Error ID that says more."""
        return f"{self.status if self.error_id is None else self.error_id:04X}"

    def data_set(self, *, has_element: bool = False) -> Dataset:
        """Return the elements of the response (PS3.7 annex E); C-STORE has the offending one."""
        found = Dataset()
        found.Status = self.status
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
