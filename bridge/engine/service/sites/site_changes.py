"""
A site as the administrative API shows it, and changes of its members.

Images are stored only after they were decoded and encoded anew.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NewType

from pydantic import ValidationError

from bridge.engine.documents.errors import BadImage
from bridge.engine.documents.uploads.images import ImageLimits, accept
from bridge.engine.service.sites.preferences import Preferences, read_preferences
from bridge.engine.service.sites.sites import BadSite, SiteSettings

IMAGE_LIMITS = ImageLimits(max_bytes=2 * 2**20, max_pixels=4_000_000)
"""Limits of header, footer and signature images, which every export contains."""

Changes = NewType("Changes", Mapping[str, Any])
"""Changed members by their names in the API, with re-encoded images."""

_MEMBERS = {
    "name": "name",
    "timeZone": "time_zone",
    "signDelay": "sign_delay",
    "locations": "locations",
    "hostOrigins": "host_origins",
}


def site_json(site: SiteSettings) -> dict[str, Any]:
    """Return a site as the API shows it."""
    return {
        "SiteID": site.site_id,
        "name": site.name,
        "timeZone": site.time_zone,
        "signDelay": site.sign_delay,
        "locations": list(site.locations),
        "hostOrigins": list(site.host_origins),
        "settings": read_preferences(site.settings).model_dump(),
        "headerImgType": site.header_img_type,
        "headerImg": site.header_img,
        "footerImg": site.footer_img,
    }


def prepare(changes: Mapping[str, Any]) -> Changes:
    """
    Re-encode the images of changes; raise `BadSite` with the place.

    Worker processes do it: call it in a thread, before the transaction.
    """
    values = dict(changes)
    if "headerImg" in changes:
        kind, data = header_image(changes.get("headerImgType"), changes["headerImg"])
        values |= {"headerImgType": kind, "headerImg": data}
    if "footerImg" in changes:
        values["footerImg"] = image_uri(changes["footerImg"], "/footerImg")
    return Changes(values)


def apply_changes(site: SiteSettings, changes: Changes) -> SiteSettings:
    """
    Return the site with the changed members; raise `BadSite` with the place.

    `settings` changes only the given preferences. Null restores the default, and removes an image.
    """
    fresh = SiteSettings(site.site_id, name=site.site_id)
    values: dict[str, Any] = {}
    for name, attribute in _MEMBERS.items():
        if name in changes:
            given = changes[name]
            value = getattr(fresh, attribute) if given is None else given
            values[attribute] = tuple(value) if isinstance(value, list) else value
    if "settings" in changes:
        values["settings"] = _preferences(site, changes["settings"] or {})
    if "headerImg" in changes:
        values["header_img_type"] = changes["headerImgType"]
        values["header_img"] = changes["headerImg"]
    if "footerImg" in changes:
        values["footer_img"] = changes["footerImg"]
    return replace(site, **values)


def difference(before: SiteSettings, after: SiteSettings) -> dict[str, dict[str, Any]]:
    """Return the changed members before and after, for an audit event; images as hashes."""
    old, new = audit_state(before), audit_state(after)
    names = [name for name in new if old[name] != new[name]]
    return {"before": {n: old[n] for n in names}, "after": {n: new[n] for n in names}}


def audit_state(site: SiteSettings) -> dict[str, Any]:
    """Return a site's members for an audit event; images as hashes."""
    members = site_json(site)
    for name in ("headerImg", "footerImg"):
        image = members[name]
        members[name] = image and f"sha256 {hashlib.sha256(image.encode()).hexdigest()[:16]}"
    return members


def _preferences(site: SiteSettings, changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = read_preferences(site.settings).stored() | dict(changes)
    return check_preferences({name: value for name, value in merged.items() if value is not None})


def check_preferences(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a site's preferences as they are stored; raise `BadSite` with the place."""
    try:
        return Preferences(**given).stored()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = "/".join(str(each) for each in first["loc"])
        raise BadSite(f"settings: {first['msg']}", pointer=f"/settings/{place}") from None


def header_image(kind: str | None, data: str | None) -> tuple[str | None, str | None]:
    """Return the re-encoded header image as media type and base64; (None, None) for none."""
    if not data:
        return None, None
    uri = data if data.startswith("data:") else f"data:{kind or 'image/png'};base64,{data}"
    encoded = image_uri(uri, "/headerImg") or ""
    head, _, body = encoded.partition(";base64,")
    return head.removeprefix("data:"), body


def image_uri(uri: str | None, place: str) -> str | None:
    """Return the re-encoded image as a data URI, None for none; raise `BadSite`."""
    if not uri:
        return None
    head, mark, body = uri.partition(";base64,")
    if not head.startswith("data:") or not mark:
        raise BadSite("an image is a data URI: data:image/png;base64,…", pointer=place)
    try:
        data = base64.b64decode(body, validate=True)
        image = accept(data, head.removeprefix("data:"), IMAGE_LIMITS)
    except ValueError:  # not base64, or not even ASCII
        raise BadSite("the image is not base64", pointer=place) from None
    except BadImage as error:
        raise BadSite(error.detail, pointer=place) from None
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode('ascii')}"
