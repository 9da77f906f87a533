"""
What would come out differently, as the console tells it: message by message, field by field.

Without the right to read bodies only the fields are told, and how often each differs.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from bridge.store.database import Database
from bridge.wiring import present
from bridge.wiring.authoring.checking import checked
from bridge.wiring.comparing import Compared, Comparing, NotComparable
from bridge.wiring.samples import Sample
from bridge.wiring.shelf import in_force
from config import Settings
from mappings.comparison import Difference, compare
from mappings.compiler import Compiled
from mappings.hl7.header import peek
from mappings.hl7.refusals import Malformed
from mappings.inbound import InboundMapping

_MOST_SHOWN = 50


def answer(found: Compared, after: str, *, values: bool) -> Mapping[str, Any]:
    """Tell what was compared; at most so many messages with their fields."""
    fields = Counter(each.field for _, differences in found.differing for each in differences)
    shown = found.differing[:_MOST_SHOWN]
    return {
        "after": after,
        "compared": found.count,
        "left": found.left,
        "differing": len(found.differing),
        "fields": [{"field": field, "count": count} for field, count in fields.most_common()],
        "messages": [
            {"label": sample.label, "differences": [_told(each, values) for each in differences]}
            for sample, differences in shown
        ],
    }


def _told(found: Difference, values: bool) -> dict[str, str]:
    if values:
        return {"field": found.field, "before": found.before, "after": found.after}
    return {"field": found.field}


def as_read_now(settings: Settings, database: Database, after: Compiled) -> Comparing:
    """
    Compare with whatever reads each message now, where the other version would take it.

    Raises NotComparable.
    """
    if not isinstance(after, InboundMapping):
        raise NotComparable("only what reads messages can take one from another definition")
    find, lists = in_force(settings, database), {}
    for listener in present.current(settings, database).listener:
        made = [checked(find(name), name).made for name in listener.mappings]
        lists[listener.name] = [each for each in made if isinstance(each, InboundMapping)]

    def look(sample: Sample) -> list[Difference]:
        try:
            header = peek(sample.payload)
        except Malformed:
            return []
        if not after.accepts(header):
            return []
        reads = (each for each in lists.get(sample.listener, ()) if each.accepts(header))
        before = next(reads, None)
        if before is None:
            return [Difference("accepted", "no", "yes")]
        return compare(before, after, sample.payload, sample.defaults, sample.charset)

    return look
