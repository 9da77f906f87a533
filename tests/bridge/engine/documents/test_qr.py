"""QR codes have the exact width, and an independent decoder reads them at that width."""

import random
from base64 import b64decode

import cv2
import numpy as np
import pytest

from bridge.contract.requests import QrMode, QrSize
from bridge.engine.documents.errors import QrTooLong
from bridge.engine.documents.qr import data_uri, qr_png

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def link(length: int, seed: int) -> str:
    """Return a report link of this length with a handle of 22 characters."""
    handle = "".join(random.Random(seed).choices(ALPHABET, k=22))
    path = f".example/reporting/launch-report/clinical?token={handle}"
    return "https://" + "r" * (length - len("https://") - len(path)) + path


def pixels(png: bytes) -> np.ndarray:
    return np.asarray(cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_GRAYSCALE))


def decode(image: np.ndarray) -> str:
    return str(cv2.QRCodeDetectorAruco().detectAndDecode(image)[0])


@pytest.mark.parametrize("size", QrSize)
def test_many_handles(size: QrSize) -> None:
    """Codes of many different handles are readable."""
    urls = [link(95, seed) for seed in range(60)]
    assert [decode(pixels(qr_png(url, size))) for url in urls] == urls


@pytest.mark.parametrize("size", QrSize)
def test_only_two_colours_and_a_quiet_zone(size: QrSize) -> None:
    """Pixels are black or white, without resampling, and the border is empty."""
    light, dark = (pixels(qr_png(link(90, 1), size, mode)) for mode in QrMode)
    assert set(np.unique(light)) == {0, 255}
    assert (dark == 255 - light).all()
    border = 3 if size is QrSize.MINI else 32
    assert (light[:border] == 255).all()
    assert (light[:, -border:] == 255).all()


def test_long_links() -> None:
    """The mini code holds at most 412 bytes."""
    assert pixels(qr_png(link(412, 1), QrSize.MINI)).shape == (80, 80)
    with pytest.raises(QrTooLong, match="413 bytes"):
        qr_png(link(413, 1), QrSize.MINI)
    with pytest.raises(QrTooLong):
        qr_png(link(2954, 1))


def test_data_uri() -> None:
    """The response member is a data URI of the same PNG."""
    uri = data_uri(link(80, 1))
    assert uri.startswith("data:image/png;base64,")
    assert b64decode(uri.partition(",")[2]) == qr_png(link(80, 1))
