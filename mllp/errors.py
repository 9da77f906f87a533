"""Errors of frames, exchanges and certificates.

* MLLPError
    * FramingError             the peer's bytes are not a frame
        * FrameTooLarge        the frame is larger than the limit
        * FrameTimedOut        the frame did not end in time
        * TruncatedFrame       the connection ended inside the frame
        * FrameMemoryExhausted all memory for unfinished frames is in use
        * TooMuchNoise         too many bytes outside of frames
    * ExchangeError            a payload got no reply
        * NotConnected         nothing was sent: sending again cannot duplicate
        * ReplyLost            it was sent; the result is unknown
    * Unframeable              our own payload contains the end of a frame
    * TLSConfigurationError    a certificate, key or authority cannot be used

Texts contain counts and names of settings, never bytes of a payload or of a key.
"""

from enum import StrEnum


class LossReason(StrEnum):
    """Why there is no usable reply."""

    TIMEOUT = "timeout"
    CLOSED = "closed"
    GARBAGE = "garbage"
    """A complete frame that is no reply, or a frame that is too long."""
    UNFRAMED = "unframed"
    """Bytes without a start block, or without an end block."""
    MISMATCH = "mismatch"
    """A complete reply to another message."""


class MLLPError(Exception):
    """Base class of this package's errors."""


class FramingError(MLLPError):
    """The peer's bytes are not a frame; the connection must be closed."""


class FrameTooLarge(FramingError):
    """A frame, finished or not, is longer than `max_payload` bytes."""

    def __init__(self, max_payload: int) -> None:
        self.max_payload = max_payload
        super().__init__(f"frame is longer than {max_payload} bytes")


class FrameTimedOut(FramingError):
    """The end of a frame did not arrive within `seconds`."""

    def __init__(self, received: int, seconds: float) -> None:
        self.received = received
        self.seconds = seconds
        super().__init__(f"frame not finished after {seconds:g} s, {received} bytes into it")


class TruncatedFrame(FramingError):
    """The connection ended `received` bytes into a frame."""

    def __init__(self, received: int) -> None:
        self.received = received
        super().__init__(f"connection closed {received} bytes into a frame")


class FrameMemoryExhausted(FramingError):
    """A frame was abandoned after `received` bytes: other frames use all memory."""

    def __init__(self, received: int) -> None:
        self.received = received
        super().__init__(f"no memory for the rest of a frame, {received} bytes into it")


class TooMuchNoise(FramingError):
    """More than `limit` bytes arrived outside of frames."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"more than {limit} bytes outside of frames")


class ExchangeError(MLLPError):
    """A payload got no reply."""


class NotConnected(ExchangeError):
    """
    Nothing of the payload was sent.

    `cause` is the class of the error, or the reason of a failed TLS handshake in words.
    """

    def __init__(self, cause: str = "closed", *, is_tls: bool = False) -> None:
        self.cause = cause
        self.is_tls = is_tls
        """Whether the TLS handshake failed; `cause` says why, in words."""
        super().__init__(f"no connection ({cause}): nothing was sent")


class ReplyLost(ExchangeError):
    """
    The payload was sent, perhaps in part; the result is unknown.

    `detail` says more about the reason, without bytes of the peer. `received` are the first bytes
    that came instead of a reply.
    """

    def __init__(self, reason: LossReason, detail: str = "", received: bytes = b"") -> None:
        self.reason = reason
        self.detail = detail
        self.received = received
        super().__init__(f"sent, but no usable reply: {detail or reason}")


class Unframeable(MLLPError):
    """A payload to be sent contains FS CR: the peer would see two frames."""

    def __init__(self, at: int) -> None:
        self.at = at
        super().__init__(f"payload contains the end of a frame at byte {at}")


class TLSConfigurationError(MLLPError):
    """The file that `setting` names cannot be used."""

    def __init__(self, setting: str, problem: str) -> None:
        self.setting = setting
        self.problem = problem
        super().__init__(f"tls.{setting}: {problem}")
