"""
The banner that all pages of an installation show, such as "TEST COPY".

`http.banner` sets it. A process installs it before it serves pages.
"""

import html


class _Installed:
    text: str = ""


def install(text: str) -> None:
    """Set the banner of this process; empty: none."""
    _Installed.text = text


def markup() -> str:
    """Return the element at the begin of a page; `installation-banner` is its CSS class."""
    text = html.escape(_Installed.text)
    return f'<p class="installation-banner" role="note">{text}</p>' if text else ""
