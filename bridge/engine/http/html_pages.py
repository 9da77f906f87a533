"""
HTML pages, their security headers, and notices.

All values are escaped. No page contains patient data: the report page loads it from the session
endpoints. `notices.json` has the texts by language. Texts that only an integrator can act on are
English.
"""

import html
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib.resources import files
from string import Template
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from bridge import banner
from bridge.engine.http.engine_state import PublicAddresses
from bridge.engine.http.static_files import AppEntry, asset, entry
from bridge.engine.launch import DEFAULT_LANGUAGE, supported_language
from bridge.engine.service.launch.link_visits import OpenedReport
from bridge.engine.settings import EngineSettings

ASSET_PATH = "/reporting/assets/"
REPORT_APP = "src/report/main.ts"
REPORT_WINDOW = "src/report/embedding/ReportWindow.svelte"
_MODE_ENTRIES = {"report": REPORT_WINDOW, "waiting": REPORT_WINDOW}
"""The further entry of each page mode; its files are preloaded."""
COOKIE = "report_session"
PERMISSIONS = ("microphone", "screen-wake-lock", "clipboard-read", "clipboard-write", "hid")


@cache
def _template(name: str) -> Template:
    return Template(asset(name).decode("utf-8"))


def page_headers(ancestors: Sequence[str]) -> dict[str, str]:
    """Return the security headers of a page; only the origins in `ancestors` may frame it."""
    framing = " ".join(ancestors) or "'none'"
    return {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
            "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; "
            "object-src 'none'; "
            f"frame-ancestors {framing}"
        ),
        "Permissions-Policy": ", ".join(f"{name}=(self)" for name in PERMISSIONS),
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Cross-Origin-Embedder-Policy": "require-corp",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "X-Content-Type-Options": "nosniff",
    }


def document_headers() -> dict[str, str]:
    """Return the security headers of an exported report: no script, no frame."""
    stricter = {
        "Content-Security-Policy": (
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        ),
        "X-Robots-Tag": "noindex, nofollow",
    }
    return {**page_headers(()), **stricter}


def report_page(opened: OpenedReport, headers: Mapping[str, str]) -> Response:
    return app_page(report_boot(opened), headers=headers)


def report_boot(opened: OpenedReport) -> dict[str, Any]:
    """Return the start data of the page of an opened report."""
    return {
        "mode": "report",
        "session": opened.secret,
        "locale": opened.language,
        "theme": opened.theme,
        "hostOrigins": list(opened.host_origins),
        "reportId": opened.report_id,
        "transfer": opened.transfer,
        "owner": opened.owner_name,
        "prelimGroups": list(opened.prelim_groups),
        "window": opened.window.as_json(),
    }


def waiting_page(
    language: str, theme: str, ancestors: Sequence[str], notice: tuple[str, str]
) -> Response:
    """Return the page of a pre-warmed session: the app is loaded and waits for a report."""
    title, text = notice
    markup = (
        f'<main class="notice" role="main"><h1>{html.escape(title)}</h1>'
        f"<p>{html.escape(text)}</p></main>"
    )
    boot = {"mode": "waiting", "locale": language, "theme": theme}
    return app_page(boot, headers=page_headers(ancestors), fallback=markup)


def font_link(font: str) -> str:
    """Return the element that loads a font at once, so that the first text already has it."""
    return f'<link rel="preload" as="font" type="font/woff2" crossorigin href="{ASSET_PATH}{font}">'


def app_page(
    boot: Mapping[str, Any],
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    fallback: str = "",
) -> Response:
    """
    Return a page of the reporting app; `boot` is its start data (web/src/report/boot.ts).

    `fallback` is markup that the browser shows until the app has started. It is not escaped.
    Raises `app_not_built` if the web pages are not built.
    """
    app = entry(REPORT_APP)
    mode_source = _MODE_ENTRIES.get(str(boot.get("mode")))
    mode = entry(mode_source) if mode_source else AppEntry("", (), ())
    scripts = dict.fromkeys((*app.preloads, *mode.preloads, mode.script))
    styles = dict.fromkeys((*app.styles, *mode.styles))
    links = [
        f'<link rel="modulepreload" href="{ASSET_PATH}{script}">'
        for script in scripts
        if script not in ("", app.script)
    ]
    links += [f'<link rel="stylesheet" href="{ASSET_PATH}{style}">' for style in styles]
    links += map(font_link, app.fonts)
    filled = _template("app.html").substitute(
        banner=banner.markup(),
        language=html.escape(str(boot.get("locale", "en-US"))),
        theme=html.escape(str(boot.get("theme", "dark"))),
        boot=_script_json(boot),
        links="\n".join(links),
        script=f"{ASSET_PATH}{app.script}",
        fallback=fallback,
    )
    return HTMLResponse(filled, status, headers=dict(headers or page_headers(())))


def notice_page(
    title: str,
    text: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    form: str = "",
    language: str = "en-US",
) -> Response:
    """Return a page with one message; `form` is markup and is not escaped."""
    filled = _template("notice.html").substitute(
        banner=banner.markup(),
        language=html.escape(language),
        title=html.escape(title),
        text=html.escape(text),
        form=form,
    )
    return HTMLResponse(filled, status, headers=dict(headers or page_headers(())))


def frame_check_page(hosts: Sequence[str], notice: tuple[str, str], language: str) -> Response:
    """Return the page that repeats its request; a browser runs it only in frames of `hosts`."""
    title, text = notice
    filled = _template("again.html").substitute(
        banner=banner.markup(),
        language=html.escape(language),
        title=html.escape(title),
        text=html.escape(text),
    )
    return HTMLResponse(filled, headers=page_headers(["'self'", *hosts]))


def docs_page(settings: EngineSettings) -> Response:
    """Return the page of the HTTP interface, with the active limits."""
    sizes, rates = settings.sizes, settings.rates
    limits = (
        f"{sizes.body} bytes a request; {sizes.structured_reports} DICOM SR files and "
        f"{sizes.key_images} key images of {sizes.key_image} bytes; {sizes.tag} characters a tag, "
        f"{sizes.key_findings} in KeyFindings, Notes and ReasonForExam; Metadata {sizes.metadata} "
        f"bytes, {sizes.metadata_depth} levels; {sizes.status_list} orders a status query, "
        f"{sizes.link_list} to link, {sizes.batch} launches a batch; a token {rates.reads.count} "
        f"reads, {rates.launches.count} launches, {rates.exports.count} exports a minute."
    )
    filled = _template("docs.html").substitute(banner=banner.markup(), limits=html.escape(limits))
    return HTMLResponse(filled, headers=page_headers(()))


def session_cookie(addresses: PublicAddresses, secret: str, *, framed: bool) -> str:
    """
    Return the Set-Cookie header of a session.

    In a frame of another site browsers keep only a partitioned cookie. The header is written
    here because the framework supports Partitioned only on newer versions of Python.
    """
    cookie = f"{addresses.cookie(COOKIE)}={secret}; Path=/; HttpOnly"
    if not addresses.secure:
        return f"{cookie}; SameSite=Lax"
    return f"{cookie}; Secure; " + ("SameSite=None; Partitioned" if framed else "SameSite=Lax")


def _script_json(value: Any) -> str:
    """Write JSON for a script element, without characters that could end the element."""
    text = json.dumps(value, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


class NoticeKey(StrEnum):
    """The key of a notice in `notices.json`."""

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
    """Return the language of a page: AppLanguage of the query, else the browser's first known."""
    accepted = request.headers.get("accept-language", "").split(",")
    candidates = (request.query_params.get("AppLanguage", ""), *accepted)
    known = (supported_language(candidate.partition(";")[0]) for candidate in candidates)
    return next((language for language in known if language), DEFAULT_LANGUAGE)


def notice_text(notice: NoticeKey, code: str) -> tuple[str, str]:
    """Return title and text of a notice; an unknown language falls back to English."""
    found = texts_of("notices.json", code)[notice]
    return found["title"], found["text"]


def texts_of(name: str, code: str) -> Any:
    """Return the texts of a file in a language; an unknown one falls back to English."""
    catalogue = _catalogue(name)
    return catalogue.get(code) or catalogue.get(code.partition("-")[0]) or catalogue["en"]


def show_notice(
    request: Request,
    notice: NoticeKey,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    detail: str = "",
) -> Response:
    """Return the page of a notice; `detail` is the English detail of a problem."""
    code = language_of(request)
    title, text = notice_text(notice, code)
    more = f'<p lang="en">{html.escape(detail)}</p>' if detail else ""
    return notice_page(title, text, status=status, headers=headers, form=more, language=code)


@cache
def _catalogue(name: str) -> dict[str, Any]:
    texts: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text("utf-8"))
    return texts
