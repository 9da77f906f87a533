"""Unmapped codes: counted in memory while messages are read or written, and stored periodically.

Counting never waits for a database. If a node is killed, the counts since the last write are lost;
messages are not. Codes that may identify a person are counted without their text.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from threading import Lock

from bridge.store.records.unmapped_codes import UNNAMED, CodeKey, CodeUse
from mappings.language.code_tables import UnmappedCode

MOST = 1000
"""Codes that are counted by name between two writes."""
_MAX_CODE_LENGTH = 40
_PERSONAL_SEGMENTS = frozenset(
    {"PID", "PD1", "NK1", "GT1", "IN1", "IN2", "IN3", "MRG", "OBX", "NTE"}
)
_CODED_FIELDS = frozenset({"PID-8", "PID-10", "PID-15", "PID-16", "PID-17", "PID-22"})
_IMPERSONAL_VARIABLES = frozenset(
    {"$site", "$report_status", "$result_status", "$observation_status", "$order_status"}
    | {"$order_control", "$section", "$section.code", "$section.system", "$order.SiteID"}
    | {"$order.SiteLocation", "$order.PatientSex", "$order.Modality", "$order.BodyPartExamined"}
    | {"$order.ProcedureCode"}
)
"""Variables of outgoing messages that contain no personal data."""
_ORDER_NUMBER_FIELDS = frozenset(
    {"ORC-2", "ORC-3", "ORC-4", "OBR-2", "OBR-3", "OBR-18", "OBR-19", "PV1-19"}
)


class UnmappedCodeCounter:
    """The unmapped codes of one process. Thread-safe."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._counts: Counter[CodeKey] = Counter()
        self._about: dict[CodeKey, CodeUse] = {}

    def note(self, mapping: str, version: str, missed: Collection[UnmappedCode]) -> None:
        """Count the unmapped codes of one message, each code once."""
        found = {CodeKey(mapping, each.table, storable_code(each)): each for each in missed}
        with self._guard:
            for key, each in found.items():
                full = len(self._counts) >= MOST and key not in self._counts
                kept = key._replace(code=UNNAMED) if full else key
                self._counts[kept] += 1
                self._about[kept] = CodeUse(version, each.place, each.policy, back=each.back)

    def take(self) -> Mapping[CodeKey, CodeUse]:
        """Return the counts since the last call, and reset them."""
        with self._guard:
            counts, about = self._counts, self._about
            self._counts, self._about = Counter(), {}
        return {key: replace(met, count=counts[key]) for key, met in about.items()}


def storable_code(missed: UnmappedCode) -> str:
    """Return a code as it may be stored; empty if it may contain personal data."""
    segment, _, rest = missed.place.partition("-")
    field = f"{segment}-{rest.partition('.')[0].partition('(')[0]}"
    personal = segment in _PERSONAL_SEGMENTS and field not in _CODED_FIELDS
    personal |= missed.place.startswith("$") and missed.place not in _IMPERSONAL_VARIABLES
    code = missed.code.strip()
    return (
        UNNAMED
        if personal or field in _ORDER_NUMBER_FIELDS or len(code) > _MAX_CODE_LENGTH
        else code
    )
