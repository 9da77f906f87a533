"""MLLP: payloads in frames over a byte stream, with replies in order. Handles bytes, not HL7.

This package exports the pure part. The Twisted parts are modules: `mllp.server`, `mllp.client`,
`mllp.tls`, and `mllp.testing` with test doubles that need no network.
"""

from mllp.errors import (
    ExchangeError,
    FrameMemoryExhausted,
    FrameTimedOut,
    FrameTooLarge,
    FramingError,
    LossReason,
    MLLPError,
    NotConnected,
    ReplyLost,
    TLSConfigurationError,
    TooMuchNoise,
    TruncatedFrame,
    Unframeable,
)
from mllp.framing import (
    DEFAULT_MAX_PAYLOAD,
    END,
    START,
    Event,
    Frame,
    FrameReader,
    Noise,
    checked_frame,
    frame,
)

__all__ = [
    "DEFAULT_MAX_PAYLOAD",
    "END",
    "START",
    "Event",
    "ExchangeError",
    "Frame",
    "FrameMemoryExhausted",
    "FrameReader",
    "FrameTimedOut",
    "FrameTooLarge",
    "FramingError",
    "LossReason",
    "MLLPError",
    "Noise",
    "NotConnected",
    "ReplyLost",
    "TLSConfigurationError",
    "TooMuchNoise",
    "TruncatedFrame",
    "Unframeable",
    "checked_frame",
    "frame",
]
