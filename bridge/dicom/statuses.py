"""Statuses of DIMSE messages (PS3.7 annex C, PS3.4 table C.4-1 and K.4-1). Pure."""

from typing import Final

SUCCESS: Final = 0x0000
PENDING: Final = 0xFF00
PENDING_UNSUPPORTED_KEYS: Final = 0xFF01
CANCEL: Final = 0xFE00
OUT_OF_RESOURCES: Final = 0xA700
NOT_THE_SOP_CLASS: Final = 0xA900
"""The identifier or data set does not match the SOP class."""
UNABLE_TO_PROCESS: Final = 0xC001
NOT_AUTHORIZED: Final = 0x0124
NO_SUCH_SOP_CLASS: Final = 0x0122
