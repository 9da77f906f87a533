"""
Fields of segments and components of data types in HL7 v2.3, v2.3.1, v2.4 and v2.5.1.

Covers the segments that outbound definitions write (chapters 2, 3, 4, 7 and 9). Types are in the
order of the standard; `*` marks a field that may repeat. `mappings.outbound.encoding` uses the
tables to leave out what a version does not have. They do not validate messages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

REPEATS = "*"
VARIES = "varies"


@dataclass(frozen=True, slots=True)
class VersionTables:
    """The tables of one version. `fields["PID"][2]` is the type of PID-3."""

    fields: Mapping[str, tuple[str, ...]]
    types: Mapping[str, tuple[str, ...]]
    """The component types of each composite type. A type that is not listed is primitive."""


def _parse_table(table: str) -> dict[str, tuple[str, ...]]:
    """Parse lines of the form `NAME: type type …`; a line without a name continues the entry."""
    found: dict[str, tuple[str, ...]] = {}
    name = ""
    for line in table.strip().splitlines():
        head, colon, kinds = line.partition(":")
        if colon:
            name = head.strip()
            found[name] = ()
        found[name] += tuple((kinds if colon else line).split())
    return found


_FIELDS_2_3 = """
    MSH: ST ST HD HD HD HD TS ST CM_MSG ST PT ID NM ST ID ID ID ID CE
    EVN: ID TS TS ID CN TS
    PID: SI CX CX* CX XPN XPN TS IS XPN* IS XAD* IS XTN* XTN* CE IS* IS CX ST DLN CX IS ST ID NM
        IS CE CE TS ID
    PV1: SI ID PL ID CX PL XCN XCN XCN* ID PL ID ID ID IS ID XCN ID CX FC* ID ID ID ID* DT* NM*
        NM* ID ID DT ID NM NM ID DT ID CM_DLD ID ID IS ID PL PL TS TS NM NM NM NM CX IS XCN*
    ORC: ID EI* EI EI ID ID TQ CM_EIP TS XCN XCN XCN* PL TN* TS CE CE CE XCN
    OBR: SI EI* EI CE ID TS TS TS CQ XCN* ID CE ST TS CM_SPS XCN* XTN* ST ST ST ST TS CM_MOC ID
        ID CM_PRL TQ XCN* CM_EIP ID CE* CM_NDL CM_NDL* CM_NDL* CM_NDL* TS NM CE* CE* CE ID ID
        CE*
    OBX: SI ID CE ST varies* CE ST ID* NM ID ID TS ST TS CE XCN CE*
    NTE: SI ID FT*
    TXA: SI IS ID TS XCN TS TS TS* XCN XCN* XCN EI EI EI* EI ST ID* ID ID ID ST PPN* XCN*
"""

_TYPES_2_3 = """
    CE: ID ST ST ID ST ST
    CM_DLD: ID TS
    CM_EIP: EI EI
    CM_MOC: MO CE
    CM_MSG: ID ID
    CM_NDL: CN_SIMPLE TS TS IS IS IS HD IS IS IS ST
    CM_OS: ID ST IS ST IS ST NM ST ID ST ID
    CM_PRL: CE ST TX
    CM_SPS: CE TX TX CE CE CE
    CN: ST ST ST ST ST ST ST ID HD
    CN_SIMPLE: ST ST ST ST ST ST ST ID ST
    CQ: NM CE
    CQ_SIMPLE: NM ST
    CX: ST ST ID HD IS HD
    DLN: ST IS DT
    EI: ST IS ST ID
    FC: IS TS
    HD: IS ST ID
    MO: NM ID
    PL: ID IS IS HD IS IS IS ST ST
    PPN: ST ST ST ST ST ST ST ID HD ID ST ID IS HD TS
    PT: ST ST
    RI: IS ST
    TQ: CQ_SIMPLE RI ST TS TS ST ST TX ST CM_OS
    TS: ST ST
    XAD: ST ST ST ST ST ID ID ST IS IS
    XCN: ST ST ST ST ST ST ST ID HD ID ST ID IS HD
    XPN: ST ST ST ST ST ST ID ID
    XTN: TN ID ID ST NM NM NM NM ST
"""

_FIELDS_2_3_1 = """
    MSH: ST ST HD HD HD HD TS ST MSG ST PT VID NM ST ID ID ID ID* CE ID
    EVN: ID TS TS IS XCN* TS
    PID: SI CX CX* CX* XPN* XPN* TS IS XPN* CE* XAD* IS XTN* XTN* CE CE CE CX ST DLN CX* CE* ST
        ID NM CE* CE CE TS ID
    PV1: SI IS PL IS CX PL XCN* XCN* XCN* IS PL IS IS IS IS* IS XCN* IS CX FC* IS IS IS IS* DT*
        NM* NM* IS IS DT IS NM NM IS DT IS DLD CE IS IS IS PL PL TS TS NM NM NM NM CX IS XCN*
    ORC: ID EI EI EI ID ID TQ EIP TS XCN* XCN* XCN* PL XTN* TS CE CE CE XCN* CE XON* XAD* XTN*
        XAD*
    OBR: SI EI EI CE ID TS TS TS CQ XCN* ID CE ST TS SPS XCN* XTN* ST ST ST ST TS MOC ID ID PRL
        TQ* XCN* EIP ID CE* NDL NDL* NDL* NDL* TS NM CE* CE* CE ID ID CE* CE CE*
    OBX: SI ID CE ST varies* CE ST ID* NM* ID ID TS ST TS CE XCN* CE*
    NTE: SI ID FT* CE
    TXA: SI IS ID TS XCN* TS TS TS* XCN* XCN* XCN* EI EI EI* EI ST ID ID ID ID ST PPN* XCN*
"""

_TYPES_2_3_1 = """
    CE: ST ST ST ST ST ST
    CNN: ST ST ST ST ST ST IS IS IS ST ID
    CQ: NM CE
    CQ_SIMPLE: NM ST
    CX: ST NM ID HD IS HD
    DLD: IS TS
    DLN: ST IS DT
    EI: ST IS ST ID
    EIP: EI EI
    FC: IS TS
    FN: ST ST
    HD: IS ST ID
    MO: NM ID
    MOC: MO CE
    MSG: ID ID ID
    NDL: CNN TS TS IS IS IS HD IS IS IS IS
    OSD: ID ST IS ST IS ST NM ST ID ST ID
    PL: IS IS IS HD IS IS IS IS ST
    PPN: ST FN ST ST ST ST IS IS HD ID ST ID IS HD TS ID
    PRL: CE ST TX
    PT: ID ID
    RI: IS ST
    SPS: CE TX TX CE CE CE CE
    TQ: CQ_SIMPLE RI ST TS TS ST ST ST ST OSD CE NM
    TS: ST ST
    VID: ID CE CE
    XAD: ST ST ST ST ST ID ID ST IS IS ID
    XCN: ST FN ST ST ST ST IS IS HD ID ST ID IS HD ID
    XON: ST IS NM NM ID HD IS HD ID
    XPN: FN ST ST ST ST IS ID ID
    XTN: TN ID ID ST NM NM NM NM ST
"""

_FIELDS_2_4 = """
    MSH: ST ST HD HD HD HD TS ST MSG ST PT VID NM ST ID ID ID ID* CE ID ID*
    EVN: ID TS TS IS XCN* TS HD
    PID: SI CX CX* CX* XPN* XPN* TS IS XPN* CE* XAD* IS XTN* XTN* CE CE CE CX ST DLN CX* CE* ST
        ID NM CE* CE CE TS ID ID IS* TS HD CE CE ST CE
    PV1: SI IS PL IS CX PL XCN* XCN* XCN* IS PL IS IS IS IS* IS XCN* IS CX FC* IS IS IS IS* DT*
        NM* NM* IS IS DT IS NM NM IS DT IS DLD CE IS IS IS PL PL TS TS* NM NM NM NM CX IS XCN*
    ORC: ID EI EI EI ID ID TQ* EIP TS XCN* XCN* XCN* PL XTN* TS CE CE CE XCN* CE XON* XAD* XTN*
        XAD* CWE
    OBR: SI EI EI CE ID TS TS TS CQ XCN* ID CE ST TS SPS XCN* XTN* ST ST ST ST TS MOC ID ID PRL
        TQ* XCN* EIP ID CE* NDL NDL* NDL* NDL* TS NM CE* CE* CE ID ID CE* CE CE* CE* CE*
    OBX: SI ID CE ST varies* CE ST IS NM* ID ID TS ST TS CE XCN CE* EI* TS
    NTE: SI ID FT* CE
    TXA: SI IS ID TS XCN* TS TS TS* XCN* XCN* XCN* EI EI EI* EI ST ID ID ID ID ST PPN* XCN*
"""

_TYPES_2_4 = """
    CE: ST ST IS ST ST IS
    CNN: ST ST ST ST ST ST IS IS IS ST ID
    CQ: NM CE
    CQ_SIMPLE: NM ST
    CWE: ST ST IS ST ST IS ST ST ST
    CX: ST ST ID HD ID HD DT DT
    DLD: ID TS
    DLN: ST IS DT
    DR_SIMPLE: ST ST
    EI: ST IS ST ID
    EIP: EI EI
    FC: IS TS
    FN: ST ST ST ST ST
    HD: IS ST ID
    MO: NM ID
    MOC: MO CE
    MSG: ID ID ID
    NDL: CNN TS TS IS IS IS HD IS IS IS IS
    OSD: ID ST IS ST IS ST NM ST ID ST ID
    PL: IS IS IS HD IS IS IS IS ST
    PPN: ST FN ST ST ST ST IS IS HD ID ST ID IS HD TS ID CE DR_SIMPLE ID
    PRL: CE ST TX
    PT: ID ID
    RI: IS ST
    SAD: ST ST ST
    SPS: CE TX TX CE CE CE CE
    TQ: CQ_SIMPLE RI ST TS TS ST ST TX ID OSD CE NM
    TS: ST ST
    VID: ID CE CE
    XAD: SAD ST ST ST ST ID ID ST IS IS ID DR_SIMPLE
    XCN: ST FN ST ST ST ST IS IS HD ID ST ID IS HD ID CE DR_SIMPLE ID
    XON: ST IS NM NM ID HD IS HD ID
    XPN: FN ST ST ST ST IS ID ID CE DR_SIMPLE ID
    XTN: TN ID ID ST NM NM NM NM ST
"""

_FIELDS_2_5_1 = """
    MSH: ST ST HD HD HD HD TS ST MSG ST PT VID NM ST ID ID ID ID* CE ID EI*
    EVN: ID TS TS IS XCN* TS HD
    PID: SI CX CX* CX* XPN* XPN* TS IS XPN* CE* XAD* IS XTN* XTN* CE CE CE CX ST DLN CX* CE* ST
        ID NM CE* CE CE TS ID ID IS* TS HD CE CE ST CE CWE*
    PV1: SI IS PL IS CX PL XCN* XCN* XCN* IS PL IS IS IS IS* IS XCN* IS CX FC* IS IS IS IS* DT*
        NM* NM* IS IS DT IS NM NM IS DT IS DLD CE IS IS IS PL PL TS TS* NM NM NM NM CX IS XCN*
    ORC: ID EI EI EI ID ID TQ* EIP TS XCN* XCN* XCN* PL XTN* TS CE CE CE XCN* CE XON* XAD* XTN*
        XAD* CWE CWE TS CWE CWE CNE CWE
    OBR: SI EI EI CE ID TS TS TS CQ XCN* ID CE ST TS SPS XCN* XTN* ST ST ST ST TS MOC ID ID PRL
        TQ* XCN* EIP ID CE* NDL NDL* NDL* NDL* TS NM CE* CE* CE ID ID CE* CE CE* CE* CE* CWE IS
        CWE
    OBX: SI ID CE ST varies* CE ST IS* NM ID* ID TS ST TS CE XCN* CE* EI* TS varies varies
        varies XON* XAD* XCN*
    NTE: SI ID FT* CE
    TXA: SI IS ID TS XCN* TS TS TS* XCN* XCN* XCN* EI EI EI* EI ST ID ID ID ID ST PPN* XCN*
"""

_TYPES_2_5_1 = """
    CE: ST ST ID ST ST ID
    CNE: ST ST ID ST ST ID ST ST ST
    CNN: ST ST ST ST ST ST IS IS IS ST ID
    CQ: NM CE
    CQ_SIMPLE: NM ST
    CWE: ST ST ID ST ST ID ST ST ST
    CX: ST ST ID HD ID HD DT DT CWE CWE
    DLD: IS TS
    DLN: ST IS DT
    DR: TS TS
    DR_SIMPLE: ST ST
    EI: ST IS ST ID
    EIP: EI EI
    FC: IS TS
    FN: ST ST ST ST ST
    HD: IS ST ID
    MO: NM ID
    MOC: MO CE
    MSG: ID ID ID
    NDL: CNN TS TS IS IS IS HD IS IS IS IS
    OSD: ID ST IS ST IS ST NM ST ID ST ID
    PL: IS IS IS HD IS IS IS IS ST EI HD
    PPN: ST FN ST ST ST ST IS IS HD ID ST ID ID HD TS ID CE DR_SIMPLE ID TS TS ST CWE CWE
    PRL: CE ST TX
    PT: ID ID
    RI: IS ST
    RP: ST HD ID ID
    SAD: ST ST ST
    SPS: CWE CWE TX CWE CWE CWE CWE
    TQ: CQ_SIMPLE RI ST TS TS ST ST TX ID OSD CE NM
    TS: DTM ID
    VID: ID CE CE
    XAD: SAD ST ST ST ST ID ID ST IS IS ID DR_SIMPLE TS TS
    XCN: ST FN ST ST ST ST IS IS HD ID ST ID ID HD ID CE DR_SIMPLE ID TS TS ST CWE CWE
    XON: ST IS NM NM ID HD ID HD ID ST
    XPN: FN ST ST ST ST IS ID ID CE DR_SIMPLE ID TS TS ST
    XTN: ST ID ID ST NM NM NM NM ST ST ST ST
"""

VERSIONS: Mapping[str, VersionTables] = MappingProxyType(
    {
        "2.3": VersionTables(_parse_table(_FIELDS_2_3), _parse_table(_TYPES_2_3)),
        "2.3.1": VersionTables(_parse_table(_FIELDS_2_3_1), _parse_table(_TYPES_2_3_1)),
        "2.4": VersionTables(_parse_table(_FIELDS_2_4), _parse_table(_TYPES_2_4)),
        "2.5.1": VersionTables(_parse_table(_FIELDS_2_5_1), _parse_table(_TYPES_2_5_1)),
    }
)
"""The versions in which results can be written."""

NEWEST_VERSION = "2.5.1"

TIME_TYPES = frozenset({"TS", "DT", "DTM"})

COMPONENTS: Mapping[str, tuple[str, ...]] = {
    name: kinds for name, kinds in VERSIONS[NEWEST_VERSION].types.items() if name not in TIME_TYPES
}
"""The component types of each composite type of v2.5.1, without the time types."""

DATA_TYPES = frozenset({*COMPONENTS, *TIME_TYPES, "ST", "IS", "ID", "TX", "FT", "NM"})
"""The data types that a definition may name with `type:`."""
