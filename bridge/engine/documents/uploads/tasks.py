"""
Tasks of worker processes for uploaded files (`bridge.workers.pool.parse`).

Each task returns JSON values: `{"fault": CODE}` for a refused file, or its content.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from PIL import Image

from bridge.engine.documents.errors import BadImage, BadStructuredReport
from bridge.engine.documents.uploads import mrrt, pixels, structured_report
from bridge.engine.documents.uploads.images import DIMENSIONS
from bridge.engine.rules.text.document import BadDocument, to_json
from parsers.dicom_file import DicomLimits

Image.init()  # imports all formats now, because the confined process reads no files


def read_structured_report(document: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read a DICOM SR file of at most `size` bytes."""
    try:
        report = structured_report.read(document, DicomLimits(max_bytes=options["size"]))
    except BadStructuredReport as error:
        return {"fault": error.code.value}
    return asdict(report)


def encode_image(document: bytes, options: Mapping[str, Any]) -> Any:
    """Re-encode an image of format `kind` with at most `pixels` pixels."""
    try:
        encoded, width, height = pixels.reencode(document, options["kind"], options["pixels"])
    except BadImage as error:
        return {"fault": error.code.value}
    return DIMENSIONS.pack(width, height) + encoded


def read_template(document: bytes, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read an MRRT template; the fault is a message."""
    try:
        title, found = mrrt.read_template(document.decode("utf-8", "surrogatepass"))
    except (mrrt.BadTemplate, BadDocument) as error:
        return {"fault": str(error)}
    return {"title": title, "document": to_json(found)}


TASKS = {
    "structured report": read_structured_report,
    "image": encode_image,
    "template": read_template,
}
