"""Launch: the user, the authority, and key images."""

import base64
from io import BytesIO
from typing import Any

import pytest
from PIL import Image

from tests.bridge.engine.http.engine_service import ADMIN, FOREIGN, OTHER, READER, Service, user
from tests.conformance.engine.cases import ok


def test_the_default_owner_is_the_user_of_the_token(service: Service) -> None:
    """userInfo: the default owner is the user of the access token."""
    assert ok(service.launch(OTHER)).json()["owner"]["email"] == OTHER
    for info in (None, {}, {"UserEmail": "", "UserName": ""}, {"UserEmail": None}):
        assert ok(service.launch(READER, userInfo=info)).status_code == 200


def test_auth_is_sufficient_for_a_user_of_another_site(service: Service) -> None:
    """Authentication 5: with Auth, the user of the header token does not matter."""
    who = user("new@site1.test", "New", Auth=service.tokens[ADMIN])
    assert ok(service.launch(FOREIGN, userInfo=who)).json()["owner"]["email"] == "new@site1.test"


def picture(kind: str = "PNG", colour: tuple[int, int, int] = (9, 9, 9)) -> str:
    buffer = BytesIO()
    Image.new("RGB", (8, 8), colour).save(buffer, kind)
    return base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("lazy", [False, True])
def test_key_images(service: Service, kind: str, lazy: bool) -> None:
    """keyImages: imageData in base64, contentType, fileName optional."""
    images = [{"imageData": picture(kind), "contentType": f"image/{kind.lower()}"}]
    images.append({**images[0], "fileName": "../../x.png"})
    ok(service.launch(keyImages=images, lazyLaunch=lazy))


@pytest.mark.parametrize(
    "image",
    [
        {},
        {"imageData": picture()},
        {"contentType": "image/png"},
        {"imageData": "", "contentType": "image/png"},
        {"imageData": "a", "contentType": "image/png"},
        {"imageData": "data:image/png;base64," + picture(), "contentType": 5},
        {"imageData": picture(), "contentType": "text/html"},
        {"imageData": picture(), "contentType": "image/svg+xml"},
        {"imageData": base64.b64encode(b"<svg onload=alert(1)/>").decode(),
         "contentType": "image/svg+xml"},
        {"imageData": base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 50).decode(),
         "contentType": "image/png"},
        {"imageData": None, "contentType": "image/png"},
        {"imageData": picture(), "contentType": "image/png", "fileName": 7},
        "not an object",
        None,
    ],
)  # fmt: skip
def test_invalid_key_images_are_refused(service: Service, image: Any) -> None:
    """keyImages: invalid base64 or another type is 400 with its place; no report is created."""
    for lazy in (False, True):
        response = service.launch(keyImages=[image], lazyLaunch=lazy)
        assert response.status_code == 400, response.text
        assert response.json()["errors"][0]["pointer"].startswith("/keyImages/0")
    assert service.get("worklist", SiteID="SITE1").json()["items"] == []


def test_lists_must_be_lists(service: Service) -> None:
    """DicomSR and keyImages are lists of objects; null and an empty list are accepted."""
    empty: tuple[Any, ...] = (None, [])
    wrong: tuple[Any, ...] = ({}, "x", 5, True)
    for member in ("dicomSR", "keyImages"):
        for value in empty:
            ok(service.launch(**{member: value}))
        for value in wrong:
            assert service.launch(**{member: value}).status_code == 400
