"""
Recordings into words, by an endpoint that speaks `POST /v1/audio/transcriptions`.

The recording is relayed and forgotten; it is neither kept nor logged here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bridge.engine.assistance.endpoint import call
from bridge.engine.assistance.errors import ModelFailed, NotARecording
from bridge.engine.settings import ModelEndpoint

SUFFIXES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "audio/webm": "webm",
        "audio/ogg": "ogg",
        "audio/mp4": "mp4",
        "audio/wav": "wav",
        "audio/mpeg": "mp3",
    }
)
"""What browsers record (MediaRecorder), and the file name's end by which recognizers know it."""


async def transcribe(
    endpoint: ModelEndpoint, recording: bytes, media_type: str, language: str
) -> str:
    """
    Return the words of a recording; `language` is one of the 17 codes.

    Raises NotARecording for a media type that no browser records, ModelFailed when the
    endpoint gives no text.
    """
    kind = media_type.partition(";")[0].strip().lower()
    suffix = SUFFIXES.get(kind)
    if suffix is None or not recording:
        raise NotARecording
    found = await call(
        endpoint,
        files={"file": (f"speech.{suffix}", recording, kind)},
        data={
            "model": endpoint.model,
            "language": language.partition("-")[0],
            "response_format": "json",
        },
    )
    text = found.get("text")
    if not isinstance(text, str):
        raise ModelFailed
    return text.strip()
