"""The names of the fields that the messages to receivers have, as HL7 v2.5.1 writes them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mappings.hl7.path import InvalidPath, Path

_SEGMENTS: Final = {
    "MSH": """Field Separator|Encoding Characters|Sending Application|Sending Facility
        |Receiving Application|Receiving Facility|Date/Time Of Message|Security|Message Type
        |Message Control ID|Processing ID|Version ID|Sequence Number|Continuation Pointer
        |Accept Acknowledgment Type|Application Acknowledgment Type|Country Code|Character Set
        |Principal Language Of Message|Alternate Character Set Handling Scheme
        |Message Profile Identifier""",
    "EVN": """Event Type Code|Recorded Date/Time|Date/Time Planned Event|Event Reason Code
        |Operator ID|Event Occurred|Event Facility""",
    "PID": """Set ID|Patient ID|Patient Identifier List|Alternate Patient ID|Patient Name
        |Mother's Maiden Name|Date/Time of Birth|Administrative Sex|Patient Alias|Race
        |Patient Address|County Code|Phone Number - Home|Phone Number - Business|Primary Language
        |Marital Status|Religion|Patient Account Number|SSN Number|Driver's License Number
        |Mother's Identifier|Ethnic Group|Birth Place|Multiple Birth Indicator|Birth Order
        |Citizenship|Veterans Military Status|Nationality|Patient Death Date and Time
        |Patient Death Indicator""",
    "PV1": """Set ID|Patient Class|Assigned Patient Location|Admission Type|Preadmit Number
        |Prior Patient Location|Attending Doctor|Referring Doctor|Consulting Doctor
        |Hospital Service|Temporary Location|Preadmit Test Indicator|Re-admission Indicator
        |Admit Source|Ambulatory Status|VIP Indicator|Admitting Doctor|Patient Type|Visit Number""",
    "ORC": """Order Control|Placer Order Number|Filler Order Number|Placer Group Number
        |Order Status|Response Flag|Quantity/Timing|Parent|Date/Time of Transaction|Entered By
        |Verified By|Ordering Provider|Enterer's Location|Call Back Phone Number
        |Order Effective Date/Time|Order Control Code Reason|Entering Organization
        |Entering Device|Action By|Advanced Beneficiary Notice Code|Ordering Facility Name
        |Ordering Facility Address|Ordering Facility Phone Number|Ordering Provider Address
        |Order Status Modifier""",
    "OBR": """Set ID|Placer Order Number|Filler Order Number|Universal Service Identifier|Priority
        |Requested Date/Time|Observation Date/Time|Observation End Date/Time|Collection Volume
        |Collector Identifier|Specimen Action Code|Danger Code|Relevant Clinical Information
        |Specimen Received Date/Time|Specimen Source|Ordering Provider
        |Order Callback Phone Number|Placer Field 1|Placer Field 2|Filler Field 1|Filler Field 2
        |Results Rpt/Status Chng - Date/Time|Charge to Practice|Diagnostic Serv Sect ID
        |Result Status|Parent Result|Quantity/Timing|Result Copies To|Parent
        |Transportation Mode|Reason for Study|Principal Result Interpreter
        |Assistant Result Interpreter|Technician|Transcriptionist|Scheduled Date/Time
        |Number of Sample Containers|Transport Logistics of Collected Sample
        |Collector's Comment|Transport Arrangement Responsibility|Transport Arranged
        |Escort Required|Planned Patient Transport Comment|Procedure Code
        |Procedure Code Modifier|Placer Supplemental Service Information
        |Filler Supplemental Service Information|Medically Necessary Duplicate Procedure Reason
        |Result Handling|Parent Universal Service Identifier""",
    "OBX": """Set ID|Value Type|Observation Identifier|Observation Sub-ID|Observation Value|Units
        |References Range|Abnormal Flags|Probability|Nature of Abnormal Test
        |Observation Result Status|Effective Date of Reference Range|User Defined Access Checks
        |Date/Time of the Observation|Producer's ID|Responsible Observer|Observation Method
        |Equipment Instance Identifier|Date/Time of the Analysis""",
    "NTE": "Set ID|Source of Comment|Comment|Comment Type",
    "TXA": """Set ID|Document Type|Document Content Presentation|Activity Date/Time
        |Primary Activity Provider|Origination Date/Time|Transcription Date/Time|Edit Date/Time
        |Originator|Assigned Document Authenticator|Transcriptionist|Unique Document Number
        |Parent Document Number|Placer Order Number|Filler Order Number
        |Unique Document File Name|Document Completion Status|Document Confidentiality Status
        |Document Availability Status|Document Storage Status|Document Change Reason
        |Authentication Person, Time Stamp|Distributed Copies""",
    "TQ1": """Set ID|Quantity|Repeat Pattern|Explicit Time|Relative Time and Units
        |Service Duration|Start date/time|End date/time|Priority""",
}
FIELD_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        segment: tuple(" ".join(name.split()) for name in names.split("|"))
        for segment, names in _SEGMENTS.items()
    }
)


def field_name(place: str) -> str:
    """Return the name of the field of a path (`OBR-16.2`), '' if unknown."""
    try:
        path = Path.parse(place)
    except InvalidPath:
        return ""
    names = FIELD_NAMES.get(path.segment, ())
    return names[path.field - 1] if 0 < path.field <= len(names) else ""
