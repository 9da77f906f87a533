"""What a QR code of a report link may look like: `qrCodeOptions` (V18, V19)."""

from enum import StrEnum


class QrSize(StrEnum):
    """Width of the QR code: 400 or 80 pixels."""

    STANDARD = "standard"
    MINI = "mini"


class QrMode(StrEnum):
    """The background that the QR code is made for."""

    LIGHT = "light"
    DARK = "dark"
