"""
Comparison of two versions of an inbound definition: the differing results for one message.

Results contain patient data and must not be logged.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mappings.authoring.trial import Trial, try_message
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """A field with different values. A text is empty if one version has no such field."""

    field: str
    """For example `accepted`, `issues`, `lanes`, or `ORC[2].clinical_info.PatientName`."""
    before: str
    after: str


def compare(
    before: InboundMapping,
    after: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str = "utf-8",
) -> list[FieldDifference]:
    """Return the differences between the results of two versions for a message."""
    old = dict(_flat(try_message(before, raw, defaults, charset)))
    new = dict(_flat(try_message(after, raw, defaults, charset)))
    fields = [*old, *(field for field in new if field not in old)]
    return [
        FieldDifference(field, old.get(field, ""), new.get(field, ""))
        for field in fields
        if old.get(field, "") != new.get(field, "")
    ]


def _flat(trial: Trial) -> Iterator[tuple[str, str]]:
    yield "accepted", "yes" if trial.accepted else "no"
    yield "issues", "; ".join(f"{each.path} {each.message} [{each.code}]" for each in trial.issues)
    yield "lanes", ", ".join(trial.lanes)
    for event in trial.events:
        place = event["place"]
        for name, value in event.items():
            yield from _leaves(f"{place}.{name}", value)


def _leaves(field: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, below in value.items():
            yield from _leaves(f"{field}.{name}", below)
    elif isinstance(value, list | tuple):
        yield field, "\n".join(map(str, value))
    else:
        yield field, str(value)
