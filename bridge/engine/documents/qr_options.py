"""What a QR code of a report link may look like: `qrCodeOptions` (V18, V19)."""

from enum import StrEnum


class QrSize(StrEnum):
    """`qrCodeOptions.size`."""

    STANDARD = "standard"
    MINI = "mini"


class QrMode(StrEnum):
    """`qrCodeOptions.mode`: the background that the code will stand on."""

    LIGHT = "light"
    DARK = "dark"
