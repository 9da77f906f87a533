"""
The 17 language codes of the interface document, and what other BCP-47 codes come to.

Pure. Knows no translations: those belong to the reporting app.
"""

from collections.abc import Sequence

LANGUAGES = (
    "en-US",
    "en-GB",
    "en-AU",
    "zh-CN",
    "zh-Hant",
    "nl-NL",
    "fr-FR",
    "fr-CA",
    "de-DE",
    "id-ID",
    "it-IT",
    "ja-JP",
    "ko-KR",
    "pl-PL",
    "pt-BR",
    "ro-RO",
    "es-ES",
)
DEFAULT_LANGUAGE = "en-US"

_BY_LOWER = {code.lower(): code for code in LANGUAGES}
_BY_LANGUAGE = {
    "en": "en-US",
    "zh": "zh-CN",
    "nl": "nl-NL",
    "fr": "fr-FR",
    "de": "de-DE",
    "id": "id-ID",
    "it": "it-IT",
    "ja": "ja-JP",
    "ko": "ko-KR",
    "pl": "pl-PL",
    "pt": "pt-BR",
    "ro": "ro-RO",
    "es": "es-ES",
}
_TRADITIONAL = frozenset({"hant", "tw", "hk", "mo"})


def language(code: str) -> str | None:
    """
    Return the supported code that `code` means, or None.

    `zh-TW`, `zh-HK`, `zh-MO` and any `zh-Hant-…` are `zh-Hant`; other Chinese is
    `zh-CN`; `en`, `pt`, `es-MX` … come to the one code of their language.
    """
    lowered = code.strip().replace("_", "-").lower()
    if exact := _BY_LOWER.get(lowered):
        return exact
    primary, *rest = lowered.split("-")
    if primary == "zh":
        hant = "hans" not in rest and not _TRADITIONAL.isdisjoint(rest)
        return "zh-Hant" if hant else "zh-CN"
    return _BY_LANGUAGE.get(primary)


def first_language(wishes: Sequence[str | None]) -> str:
    """Return the first wish that is set: request, user, site, and at last `en-US`."""
    return next((wish for wish in wishes if wish), DEFAULT_LANGUAGE)
