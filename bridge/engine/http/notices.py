"""
Pages that show no report: why not, or what they wait for, in the language of whoever reads them.

The words are `notices.json`, by language. What only an integrator can mend stays in English.
"""

import html
import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import cast

from fastapi import Request
from starlette.responses import Response

from bridge.engine.http import pages
from bridge.engine.launching.languages import DEFAULT_LANGUAGE, language

_FALLBACK = "en"


class Notice(StrEnum):
    """What a page has to say; named in the catalogue."""

    FRAME_NOT_PERMITTED = "frame_not_permitted"
    LINK_EXPIRED = "link_expired"
    REPORT_DELETED = "report_deleted"
    NOT_FOUND = "not_found"
    PATIENT_NAME_MISMATCH = "patient_name_mismatch"
    FORBIDDEN = "forbidden"
    ANOTHER_REPORT = "another_report"
    CANNOT_OPEN = "cannot_open"
    CANNOT_PREPARE = "cannot_prepare"
    WAITING = "waiting"
    READY = "ready"


def language_of(request: Request) -> str:
    """Return one of the 17 codes: the address's AppLanguage, or the browser's first known one."""
    asked = request.headers.get("accept-language", "").split(",")
    wishes = (request.query_params.get("AppLanguage", ""), *asked)
    known = (language(each.partition(";")[0]) for each in wishes)
    return next((each for each in known if each), DEFAULT_LANGUAGE)


def words(which: Notice, code: str) -> tuple[str, str]:
    """Return title and text in a language, an unknown one's in its base's or in English."""
    catalogue = _catalogue()
    base = code.partition("-")[0]
    found = catalogue.get(code) or catalogue.get(base) or catalogue[_FALLBACK]
    return found[which]["title"], found[which]["text"]


def notice(
    request: Request,
    which: Notice,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    detail: str = "",
) -> Response:
    """Return the page of a notice; `detail` is the English of a problem that has no words here."""
    code = language_of(request)
    title, text = words(which, code)
    more = f'<p lang="en">{html.escape(detail)}</p>' if detail else ""
    return pages.notice_page(title, text, status=status, headers=headers, form=more, language=code)


@cache
def _catalogue() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    text = files("bridge.engine.http").joinpath("notices.json").read_text("utf-8")
    return cast("Mapping[str, Mapping[str, Mapping[str, str]]]", json.loads(text))
