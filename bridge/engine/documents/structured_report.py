"""
Read a DICOM structured report: clinical information, measurements, findings as text.

Takes any SR document of DICOM PS3.3 A.35 in one go or refuses it as a whole. What the
values mean for a report (which tag wins, where the text goes) is decided elsewhere. Runs in a
worker process (`bridge.engine.documents.tasks`): pydicom needs minutes for some short files.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

from pydicom.dataset import Dataset

from bridge.engine.documents.errors import BadStructuredReport, SrFault
from bridge.engine.documents.sr_content import Measurement, concept, walk
from bridge.engine.documents.sr_file import SrLimits, read_file
from bridge.engine.documents.sr_tags import clinical_info, text_of
from parsers.limits import STRUCTURED_REPORT_TEXT

SR_STORAGE = "1.2.840.10008.5.1.4.1.1.88."  # every SR document class of PS3.4 B.5 begins so

UNEXPECTED_END = r".* in file "  # pydicom only warns when a sequence ends too early


@dataclass(frozen=True, slots=True)
class StructuredReport:
    """What one file says; `tags` are clinicalInfo tags that have a value."""

    sop_instance_uid: str
    sop_class_uid: str
    title: str
    tags: Mapping[str, str]
    measurements: tuple[Measurement, ...]
    text: str
    verified: bool


def read(data: bytes, limits: SrLimits | None = None) -> StructuredReport:
    """Return what the file says, or raise `BadStructuredReport`; no value leaves by an error."""
    try:
        # pydicom's warnings quote the values that it dislikes: they must not reach a log.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message=UNEXPECTED_END)
            return _read(data, limits or SrLimits())
    except BadStructuredReport:
        raise
    except RecursionError:
        raise BadStructuredReport(SrFault.TOO_DEEP) from None
    except Exception:  # noqa: BLE001  # pydicom raises what it likes on hostile bytes
        raise BadStructuredReport(SrFault.MALFORMED) from None


def _read(data: bytes, limits: SrLimits) -> StructuredReport:
    data_set = read_file(data, limits)
    sop_class = text_of(data_set.get("SOPClassUID"))
    if not sop_class:
        raise BadStructuredReport(SrFault.NOT_DICOM)
    if not sop_class.startswith(SR_STORAGE):
        raise BadStructuredReport(SrFault.NOT_STRUCTURED_REPORT)
    return _interpret(data_set, sop_class, limits)


def _interpret(data_set: Dataset, sop_class: str, limits: SrLimits) -> StructuredReport:
    instance = text_of(data_set.get("SOPInstanceUID"))
    if not instance:  # it is what a repeated file is recognized by
        raise BadStructuredReport(SrFault.MALFORMED)
    content = walk(data_set, limits.max_depth)
    paths = sum(len(name) for each in content.measurements for name in (*each.path, each.tracking))
    if sum(map(len, content.lines)) + paths > STRUCTURED_REPORT_TEXT:
        raise BadStructuredReport(SrFault.TOO_LARGE)
    return StructuredReport(
        sop_instance_uid=instance,
        sop_class_uid=sop_class,
        title=concept(data_set),
        tags=clinical_info(data_set),
        measurements=tuple(content.measurements),
        text="\n".join(content.lines),
        verified=text_of(data_set.get("VerificationFlag")).upper() == "VERIFIED",
    )
