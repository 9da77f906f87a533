"""Why a model does not help: told without a word of what was asked or answered."""

from typing import ClassVar

from bridge.engine.errors import EngineError


class NoRecognizer(EngineError):  # noqa: N818  # named for what happened
    """The installation has no speech recognizer."""

    status: ClassVar[int] = 404
    text: ClassVar[str] = "this installation has no speech recognizer"
    code = "no_recognizer"


class NotARecording(EngineError):  # noqa: N818  # named for what happened
    """What was sent is no audio that a browser records."""

    status: ClassVar[int] = 415
    text: ClassVar[str] = "the body is no recording of a kind that is known here"
    code = "not_a_recording"


class ModelFailed(EngineError):  # noqa: N818  # named for what happened
    """The endpoint did not answer, or not as its interface says."""

    status: ClassVar[int] = 502
    text: ClassVar[str] = "the model's endpoint did not answer as expected"
    retryable: ClassVar[bool] = True
    code = "model_failed"
