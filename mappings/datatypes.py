"""
The shapes of the HL7 v2.5.1 data types we repeat from orders (chapter 2A).

Enough to keep a sender's extra components, subcomponents and repetitions from making our
message invalid. Not a validator.
"""

from collections.abc import Mapping

_HD = ("IS", "ST", "ID")
_XCN_NAME = ("ST", "FN", "ST", "ST", "ST", "ST", "IS", "IS")
_XCN_TAIL = ("ID", "TS", "TS", "ST", "CWE", "CWE")
_CE = ("ST", "ST", "ID", "ST", "ST", "ID")

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    "CE": _CE,
    "CWE": (*_CE, "ST", "ST", "ST"),
    "CNN": ("ST", "ST", "ST", "ST", "ST", "ST", "IS", "IS", "IS", "ST", "ST"),
    "CX": ("ST", "ST", "ID", "HD", "ID", "HD", "DT", "DT", "CWE", "CWE"),
    "DR": ("TS", "TS"),
    "EI": ("ST", *_HD),
    "EIP": ("EI", "EI"),
    "FN": ("ST", "ST", "ST", "ST", "ST"),
    "HD": _HD,
    "NDL": ("CNN", "TS", "TS", "IS", "IS", "IS", "HD", "IS", "IS", "IS", "IS"),
    "PL": ("IS", "IS", "IS", "HD", "IS", "IS", "IS", "IS", "ST", "EI", "HD"),
    "RP": ("ST", "HD", "ID", "ID"),
    "XCN": (*_XCN_NAME, "HD", "ID", "ST", "ID", "ID", "HD", "ID", "CE", "DR", *_XCN_TAIL),
    "XON": ("ST", "IS", "NM", "NM", "ID", "HD", "ID", "HD", "ID", "ST"),
    "XPN": ("FN", "ST", "ST", "ST", "ST", "IS", "ID", "ID", "CE", "DR", "ID", "TS", "TS", "ST"),
}
"""The component types of every composite; a type that is not listed has none."""

TIMES = frozenset({"TS", "DT", "DTM"})
NAMES = frozenset({*COMPONENTS, *TIMES, "ST", "IS", "ID", "TX", "FT", "NM"})
