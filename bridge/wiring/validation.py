"""What looks at a listener's messages before they are judged, from its settings."""

from functools import partial

from bridge.intake.acquaintance import Acquaintance
from bridge.intake.listening import Acknowledge, Listening
from bridge.intake.validating import Check, ValidatingHandler, Validator, validated
from bridge.observability.metrics import Metrics
from bridge.store.database import Database
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


def acquaintance(listening: Listening, database: Database) -> Acquaintance | None:
    """Make what knows merged patients; None where nothing is checked before it is accepted."""
    checks = listening.acknowledge is not Acknowledge.STORED
    return Acquaintance(listening, database) if checks else None


def in_front(check: Validator | None, handle: Handler) -> Handler:
    """Let a listener's frames be validated before they are handled."""
    return handle if check is None else ValidatingHandler(check, handle)


def policy(listening: Listening, *checks: Check | None) -> Listening:
    """Give a listener's policy with the checks that it has."""
    for check in filter(None, checks):
        listening = validated(listening, check)
    return listening
