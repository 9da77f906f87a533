"""The validator of a listener, from its settings."""

from functools import partial

from bridge.intake.listening import Listening
from bridge.intake.validating import ValidatingHandler, Validator, validated
from bridge.observability.metrics import Metrics
from bridge.validation.profiles import load_profile
from bridge.validation.structure import validate
from config import Settings
from config.listeners import Listener, Validation
from mllp.contract import Handler


def validator(settings: Settings, listener: Listener, metrics: Metrics) -> Validator | None:
    """Make a listener's validator; None where it has none. Raises ProfileUnusable."""
    if listener.validation is Validation.OFF:
        return None
    file = listener.profile
    profile = None if file is None else load_profile(settings.path(file))
    look = partial(validate, profile=profile, fallback=listener.charset)
    return Validator(listener.name, look, metrics, refuse=listener.validation is Validation.REFUSE)


def in_front(check: Validator | None, handle: Handler) -> Handler:
    """Let a listener's frames be validated before they are handled."""
    return handle if check is None else ValidatingHandler(check, handle)


def policy(listening: Listening, check: Validator | None) -> Listening:
    """Give a listener's policy with its validator, if it has one."""
    return listening if check is None else validated(listening, check)
