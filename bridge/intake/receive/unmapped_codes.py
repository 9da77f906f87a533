"""Codes that no table has, counted while messages are read or written, and handed on now and then.

Nothing here waits for a database: what a node has counted and not handed on is lost when it is
killed, which costs a count and no message. What may be about a person is counted without a name.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from threading import Lock

from bridge.store.records.unmapped_codes import UNNAMED, CodeKey, CodeUse
from mappings.language.code_tables import UnmappedCode

MOST = 1000
"""So many codes are counted by name between two times that they are handed on."""
_LONGEST = 40  # characters of a code
_PERSONAL = frozenset({"PID", "PD1", "NK1", "GT1", "IN1", "IN2", "IN3", "MRG", "OBX", "NTE"})
_CODED = frozenset({"PID-8", "PID-10", "PID-15", "PID-16", "PID-17", "PID-22"})
_SPOKEN = frozenset(
    {"$site", "$report_status", "$result_status", "$observation_status", "$order_status"}
    | {"$order_control", "$section", "$section.code", "$section.system", "$order.SiteID"}
    | {"$order.SiteLocation", "$order.PatientSex", "$order.Modality", "$order.BodyPartExamined"}
    | {"$order.ProcedureCode"}
)
"""Variables of outgoing messages that tell nothing about a person."""
_NUMBERS = frozenset({"ORC-2", "ORC-3", "ORC-4", "OBR-2", "OBR-3", "OBR-18", "OBR-19", "PV1-19"})


class Tally:
    """What one process has met. Any thread may count, and any may take."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._counts: Counter[CodeKey] = Counter()
        self._about: dict[CodeKey, CodeUse] = {}

    def note(self, mapping: str, version: str, missed: Collection[UnmappedCode]) -> None:
        """Count what one message missed: each code once, however often it stands there."""
        found = {CodeKey(mapping, each.table, named(each)): each for each in missed}
        with self._guard:
            for key, each in found.items():
                full = len(self._counts) >= MOST and key not in self._counts
                kept = key._replace(code=UNNAMED) if full else key
                self._counts[kept] += 1
                self._about[kept] = CodeUse(version, each.place, each.policy, back=each.back)

    def take(self) -> Mapping[CodeKey, CodeUse]:
        """Give what was counted since the last time."""
        with self._guard:
            counts, about = self._counts, self._about
            self._counts, self._about = Counter(), {}
        return {key: replace(met, count=counts[key]) for key, met in about.items()}


def named(missed: UnmappedCode) -> str:
    """Give the code as it may be kept; empty where it may tell something about a person."""
    segment, _, rest = missed.place.partition("-")
    field = f"{segment}-{rest.partition('.')[0].partition('(')[0]}"
    personal = segment in _PERSONAL and field not in _CODED
    personal |= missed.place.startswith("$") and missed.place not in _SPOKEN
    code = missed.code.strip()
    return UNNAMED if personal or field in _NUMBERS or len(code) > _LONGEST else code
