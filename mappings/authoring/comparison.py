"""What two versions of a definition make of the same message, field by field.

Patient data: for a screen and no log. Says what differs, and nothing of which one is right.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mappings.authoring.trial import Trial, try_message
from mappings.inbound.definition import InboundMapping
from mappings.language.scope import ListenerDefaults


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field of what comes out; a text is empty where one version has nothing there."""

    field: str
    """Such as `accepted`, `issues`, `lanes`, or `ORC[2].clinical_info.PatientName`."""
    before: str
    after: str


def compare(
    before: InboundMapping,
    after: InboundMapping,
    raw: bytes,
    defaults: ListenerDefaults,
    charset: str = "utf-8",
) -> list[FieldDifference]:
    """Try both versions on a message; nothing where they agree."""
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
