"""
Demographic updates and merges, as calls to the report service.

A patient whom the service does not know, and a service that lacks the call, are notes: there
is nothing to correct there.
"""

from collections.abc import Mapping
from typing import Protocol

from bridge.engine_client.errors import EngineFailure
from bridge.engine_client.models import PatientUpdate
from bridge.intake.withdrawal import NOT_FOUND
from bridge.store.merged_patients import Patient
from mappings.events import Action, OrderEvent

UNSUPPORTED = "patients_not_supported"
"""The note where a service cannot correct or merge patients: nothing has changed there."""


class PatientService(Protocol):
    """What is needed of the engine's client."""

    async def update_patient(self, update: PatientUpdate) -> None:
        """Correct demographics."""

    async def merge_patients(self, site: str, mrn: str, prior_mrn: str) -> None:
        """Give one patient's reports to another."""


async def settle_patient(
    service: PatientService, event: OrderEvent, told: Mapping[str, str]
) -> str:
    """
    Make the calls that a patient event asks for; give a note. Raises EngineFailure.

    Who survives a merge is told to be whom the message says, demographics and all.
    """
    note = "patient_updated"
    try:
        if event.action is Action.PATIENT_MERGE:
            await service.merge_patients(event.site, event.mrn, event.prior_mrn)
            note = "patient_merged"
        if told:
            await service.update_patient(PatientUpdate(event.site, event.mrn, told))
    except EngineFailure as failure:
        if failure.is_unsupported:
            return UNSUPPORTED
        if failure.status != NOT_FOUND:
            raise
        return note if note == "patient_merged" else "patient_unknown"
    return note


def renamed(event: OrderEvent, told: Mapping[str, str]) -> list[Patient]:
    """Give who may be called otherwise since an event that tells this of a patient."""
    if event.action is not Action.PATIENT_MERGE and "PatientName" not in told:
        return []
    return [(event.site, mrn) for mrn in (event.mrn, event.prior_mrn) if mrn]
