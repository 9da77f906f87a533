"""
Settings of a destination or listener that fit a partner, from what the probes found.

Each result names settings with which messages arrive. Here they are compared with those that the
connection has. What a connection has and what fits is not changed: a longer time-out stays, and a
reply that somebody has decided on keeps its action.
"""

import codecs
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.active_settings import Connection
from bridge.admin.examination.results import ProbeResult, Verdict
from config.forms import FieldKind, form_fields, to_plain_value, to_table
from config.listeners import Acknowledge, ListenerSettings
from config.quantities import parse_duration
from config.sections import DestinationSettings, DestinationTLS
from config.toml_text import toml_value


@dataclass(frozen=True, slots=True)
class ProposedChange:
    """A setting to change; `before` and `after` are written as in bridge.toml, '' if not set."""

    setting: str
    before: str
    after: str
    why: str

    @property
    def line(self) -> str:
        """The line of bridge.toml."""
        return f"{self.setting} = {self.after}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Changes of a connection; `table` has its settings with them, as in bridge.toml."""

    table: Mapping[str, Any]
    changes: Sequence[ProposedChange]


def new_destination(address: str, *, has_tls: bool) -> DestinationSettings:
    """Return a destination at an examined address; its name is to be chosen."""
    tls = DestinationTLS() if has_tls else None
    return DestinationSettings.model_validate({"name": "new", "address": address, "tls": tls})


def new_listener(port: int) -> ListenerSettings:
    """Return a listener for an examined sender, at the port to which it has sent."""
    return ListenerSettings.model_validate({"name": "new", "bind": f"0.0.0.0:{port}"})


def propose(section: Connection, results: Sequence[ProbeResult]) -> Proposal:
    """Return what to change in a connection so that it fits the partner."""
    seconds = {
        field["name"] for field in form_fields(type(section)) if field["kind"] == FieldKind.SECONDS
    }
    values, reasons = dict(_values(section)), dict[str, list[str]]()
    for result in results:
        if result.verdict is Verdict.SKIPPED:
            continue
        for name, fitting in result.settings.items():
            joined = _JOINED.get(name, _replaced)(values[name], fitting)
            if joined != values[name]:
                values[name] = joined
                reasons.setdefault(name, []).append(result.advice)
    before = dict(_values(section))
    changes = [
        ProposedChange(
            name,
            _written(before[name], is_duration=name in seconds),
            _written(values[name], is_duration=name in seconds),
            ". ".join(dict.fromkeys(advice)),
        )
        for name, advice in reasons.items()
    ]
    return Proposal({**to_table(section), **{name: values[name] for name in reasons}}, changes)


def _values(section: Connection) -> Mapping[str, Any]:
    """Return the settings with their values, also those that have their defaults."""
    inner = to_table(section)
    return {
        field.alias or name: inner.get(field.alias or name, to_plain_value(getattr(section, name)))
        for name, field in type(section).model_fields.items()
    }


def _written(value: Any, *, is_duration: bool) -> str:
    if value is None:
        return ""
    return f'"{parse_duration(value):g}s"' if is_duration else toml_value(value)


def _replaced(_before: Any, after: Any) -> Any:
    return after


def _longer(before: Any, after: Any) -> Any:
    return before if parse_duration(before) >= parse_duration(after) else after


def _earlier(before: Any, after: Any) -> Any:
    """Return the acknowledgment that is sent earlier."""
    order = list(Acknowledge)
    return min(before, after, key=lambda value: order.index(Acknowledge(value)))


def _same_set(before: Any, after: Any) -> Any:
    return before if codecs.lookup(before) == codecs.lookup(after) else after


_JOINED: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "ack_timeout": _longer,
    "frame_timeout": _longer,
    "acknowledge": _earlier,
    "replies": lambda before, after: {**after, **before},
    "charset": _same_set,
    "processing_ids": lambda before, after: list(dict.fromkeys([*before, *after])),
    # A receiver that accepts a version accepts the older ones that somebody has chosen.
    "version": lambda before, after: min(before or after, after),
    "tls": lambda before, after: after if before is None else before,
}
"""How a setting of a connection and one that would fit become one; others are replaced."""
