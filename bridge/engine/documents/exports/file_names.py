"""
The name of an exported file: study, date and a short id, without the patient's name or number.

    CT chest 2026-01-31 3f9a2c11.pdf
"""

import re
import unicodedata
from urllib.parse import quote

from bridge.engine.documents.exports.layout import clean
from bridge.engine.documents.exports.model import ExportedReport, day_and_time, labels

LONGEST_STUDY = 60
ID_LENGTH = 8
_UNSAFE = re.compile(r'[\\/:*?"<>|%;\s]+')
_DOTS = re.compile(r"(?:(?:^|\s)\.+)+(?=\s|$)\s*")


def file_name(exported: ExportedReport, kind: str) -> str:
    """Return the name of a file that a person finds again."""
    first = exported.orders[0] if exported.orders else {}
    modality = first.get("Modality", "").strip()
    study = (first.get("StudyDescription") or first.get("BodyPartExamined") or "").strip()
    if modality.casefold() not in study.casefold().split():
        study = f"{modality} {study}"
    day = day_and_time(first.get("StudyDate", ""))[:10]
    parts = (study[:LONGEST_STUDY].strip() or labels(exported.language)["report"], day)
    named = " ".join(filter(None, (*parts, exported.report_id[:ID_LENGTH])))
    return f"{_DOTS.sub(' ', _UNSAFE.sub(' ', clean(named))).strip()}.{kind}"


def attachment(exported: ExportedReport, kind: str) -> str:
    """Return the value of `Content-Disposition` (RFC 6266): ASCII, and the name in UTF-8."""
    name = file_name(exported, kind)
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain = " ".join(plain.split()).lstrip(" .")
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
