"""
Remembered devices: browsers in which an owner has signed in before.

A sealed cookie names the account and the browser. It signs nobody in: it only gives its browser
attempts of its own, so that strangers who guess cannot use up those of the owner.
"""

import base64
import json
from typing import Final

from fastapi import Request

from bridge.engine.http.state import Engine
from bridge.engine.links.errors import SealBroken, UnknownKey
from bridge.engine.links.handles import Purpose
from bridge.engine.links.sealing import Binding, Sealed

_COOKIE: Final = "report_device"
_SECURE_COOKIE: Final = "__Host-report_device"
_LIFE: Final = 180 * 24 * 3600  # seconds
_BINDING: Final = Binding("", "", Purpose.DEVICE)
_MOST: Final = 1024  # characters of a cookie that are looked at


def device_cookie(engine: Engine, request: Request, email: str) -> str:
    """Return the Set-Cookie header that remembers a browser for an account."""
    device = known_device(engine, request, email) or engine.random(16).hex()
    kept = json.dumps({"email": email, "device": device}).encode()
    sealed = engine.keys.seal(kept, _BINDING)
    data = base64.urlsafe_b64encode(sealed.data).decode("ascii")
    cookie = f"{_name(engine)}={sealed.key_id}.{data}; Path=/; HttpOnly; SameSite=Lax"
    secure = "; Secure" if engine.addresses.secure else ""
    return f"{cookie}; Max-Age={_LIFE}{secure}"


def known_device(engine: Engine, request: Request, email: str) -> str:
    """Return the browser that an account's owner has signed in with before; '' for any other."""
    cookie = request.cookies.get(_name(engine), "")
    key_id, _, data = cookie.partition(".")
    if not data or len(cookie) > _MOST:
        return ""
    try:
        sealed = Sealed(key_id, base64.urlsafe_b64decode(data))
        kept = json.loads(engine.keys.open(sealed, _BINDING))
    except (SealBroken, UnknownKey, ValueError):
        return ""
    return str(kept["device"]) if kept["email"] == email else ""


def _name(engine: Engine) -> str:
    return _SECURE_COOKIE if engine.addresses.secure else _COOKIE
