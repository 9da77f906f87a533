"""The task of a worker process that converts an export of channels."""

from collections.abc import Mapping
from typing import Any

from bridge.admin.mirth.conversion import ConversionOptions, convert
from parsers.limits import DocumentRefused


def convert_channels(document: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    """
    Convert an export with the definitions `sources` and the `options`.

    Return the conversion as JSON, or the `fault` of the document with its line.
    """
    try:
        return convert(document, given["sources"], ConversionOptions(**given["options"])).as_json()
    except DocumentRefused as refused:
        return {"fault": refused.reason, "line": refused.line, "column": refused.column}


TASKS = {"mirth": convert_channels}
