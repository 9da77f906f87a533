"""
QR codes of report links, exactly 400 or 80 pixels wide.

`qrcode` computes the matrix. The pixels are drawn here, because a module must have a whole number
of pixels: a resampled code of 80 pixels cannot be read.
"""

from base64 import b64encode
from io import BytesIO

from bridge.contract.requests import QrMode, QrSize
from bridge.engine.documents.errors import QrTooLong

QUIET_ZONE = 4  # modules on each side, ISO/IEC 18004 §6.3.8

WIDTHS = {QrSize.STANDARD: 400, QrSize.MINI: 80}


def qr_png(url: str, size: QrSize = QrSize.STANDARD, mode: QrMode = QrMode.LIGHT) -> bytes:
    """
    Return a PNG of exactly 400 (`standard`) or 80 (`mini`) pixels square.

    `mini` has two pixels for each module up to 106 bytes of URL (version 5-L), which phones read
    from a screen. Up to 412 bytes it has one pixel, which not all readers can read. Raises
    `QrTooLong` for longer URLs; `standard` accepts up to 2,953 bytes.
    """
    width = WIDTHS[size]
    matrix = _mini_matrix(url) if size is QrSize.MINI else _standard_matrix(url)
    if matrix is None or len(matrix) > width:
        raise QrTooLong(len(url.encode()), width)
    return _draw(matrix, width, mode)


def data_uri(url: str, size: QrSize = QrSize.STANDARD, mode: QrMode = QrMode.LIGHT) -> str:
    """Return the PNG as a data URI, the value of `reportQRCode`."""
    return "data:image/png;base64," + b64encode(qr_png(url, size, mode)).decode("ascii")


def _standard_matrix(url: str) -> list[list[bool]] | None:
    """
    Return the matrix of level L; that of level M, which corrects more errors, if it is no larger.

    Smaller matrices are read more reliably: OpenCV misses 12 of 150 codes in 6-M, and 1 in 5-L.
    """
    level_l, level_m = _matrix(url, "L"), _matrix(url, "M")
    return level_m if level_l and level_m and len(level_m) == len(level_l) else level_l


def _mini_matrix(url: str) -> list[list[bool]] | None:
    """
    Return the matrix that is readable in 80 pixels.

    If two pixels for each module do not fit, version 7 and above (level M) is readable at one
    pixel. Version 6 has a single alignment pattern and is not.
    """
    smallest = _matrix(url, "L")
    if smallest is not None and 2 * len(smallest) <= WIDTHS[QrSize.MINI]:
        return smallest
    return _matrix(url, "M")


def _matrix(url: str, level: str) -> list[list[bool]] | None:
    """
    Return the modules without quiet zone, or None when no version can hold the URL.

    `level` is the error correction level: L or M.
    """
    from qrcode import constants  # noqa: PLC0415  # slow to load
    from qrcode.exceptions import DataOverflowError  # noqa: PLC0415  # as above
    from qrcode.main import QRCode  # noqa: PLC0415  # as above

    correction = constants.ERROR_CORRECT_L if level == "L" else constants.ERROR_CORRECT_M
    code = QRCode(error_correction=correction, border=0)
    code.add_data(url.encode(), optimize=0)
    try:
        code.make(fit=True)
    except (DataOverflowError, ValueError):  # qrcode 8 raises ValueError for version 41
        return None
    return [[bool(module) for module in row] for row in code.get_matrix()]


def _draw(matrix: list[list[bool]], width: int, mode: QrMode) -> bytes:
    """Draw the matrix centred, at the largest whole scale that leaves a quiet zone."""
    from PIL import Image  # noqa: PLC0415  # slow to load

    modules = len(matrix)
    scale = max(width // (modules + 2 * QUIET_ZONE), 1)
    if width < WIDTHS[QrSize.STANDARD]:  # mini: pixels per module matter more than the margin
        scale = width // modules
    ground, ink = (255, 0) if mode is QrMode.LIGHT else (0, 255)
    small = Image.new("L", (modules, modules), ground)
    small.putdata([ink if module else ground for row in matrix for module in row])
    image = Image.new("L", (width, width), ground)
    corner = (width - modules * scale) // 2
    image.paste(small.resize((modules * scale,) * 2, Image.Resampling.NEAREST), (corner, corner))
    buffer = BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
