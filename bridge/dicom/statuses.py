"""Statuses of DIMSE messages (PS3.7 annex C, PS3.4 B.2.3, C.4, F.7.2 and K.4). Pure."""

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
INVALID_VALUE: Final = 0x0106
PROCESSING_FAILURE: Final = 0x0110
DUPLICATE_INSTANCE: Final = 0x0111
NO_SUCH_INSTANCE: Final = 0x0112
NO_SUCH_CLASS: Final = 0x0118
"""The SOP class is not supported; DIMSE-C has 0122 for it."""
MISSING_ATTRIBUTE: Final = 0x0120
MISSING_VALUE: Final = 0x0121
UNRECOGNIZED_OPERATION: Final = 0x0211
MISTYPED_ARGUMENT: Final = 0x0212
RESOURCE_LIMIT: Final = 0x0213
CANNOT_UNDERSTAND: Final = 0xC000
NO_SUCH_SYNTAX: Final = 0xC122
"""The transfer syntax is not supported (PS3.18 table I.2-2)."""

MAY_NOT_BE_UPDATED: Final = 0xA710
"""Error ID: the performed procedure step may no longer be updated (PS3.4 table F.7.2-2)."""
