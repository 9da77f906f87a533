"""What requests about whole interfaces carry."""

import base64
import binascii
from typing import Annotated

from pydantic import ConfigDict, Field, field_validator

from bridge.request_body import Model

_LONGEST = 8 * 2**20


class ParcelBody(Model):
    """A ZIP file, as base64."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    zip: Annotated[str, Field(min_length=1, max_length=_LONGEST)]

    @field_validator("zip")
    @classmethod
    def _is_base64(cls, value: str) -> str:
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error:
            raise ValueError("not base64") from None
        return value

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return base64.b64decode(self.zip)


class TakenBody(ParcelBody):
    """And what was looked at, whether other files are replaced, and why."""

    mark: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    replace: bool = False
    reason: Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
