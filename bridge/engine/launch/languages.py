"""
The 17 language codes of the interface document, and the mapping of other BCP-47 codes.

Pure. Translations belong to the reporting app.
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
    Return the supported code for `code`, or None.

    `zh-TW`, `zh-HK`, `zh-MO` and any `zh-Hant-…` map to `zh-Hant`, other Chinese to `zh-CN`, and
    `en`, `pt`, `es-MX` … to the code of their language.
    """
    lowered = code.strip().replace("_", "-").lower()
    if exact := _BY_LOWER.get(lowered):
        return exact
    primary, *rest = lowered.split("-")
    if primary == "zh":
        hant = "hans" not in rest and not _TRADITIONAL.isdisjoint(rest)
        return "zh-Hant" if hant else "zh-CN"
    return _BY_LANGUAGE.get(primary)


def first_language(choices: Sequence[str | None]) -> str:
    """Return the first code that is set, in the order request, user, site; otherwise `en-US`."""
    return next((each for each in choices if each), DEFAULT_LANGUAGE)
