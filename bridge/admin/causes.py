"""
Causes: why a message, delivery, order or feed is in its state, in words, with a proposed action.

Lists, pages, exports and commands have one text for each code. Words are a statement without a full
stop and contain no values of messages; advice is a sentence for the person who acts.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bridge.contract.errors import ErrorCode
from bridge.queue.states import QueueState
from bridge.store.records.exceptions import ExceptionSubject
from mappings.hl7.acknowledgment import ERROR_DESCRIPTIONS
from mappings.hl7.refusals import AckCode


class ProposedAction(StrEnum):
    """What a person does about a cause. The console has a button for each."""

    REPLAY = "replay"
    RETRY = "retry"
    SKIP = "skip"
    ADD_SITE = "add site"
    ADD_CODES = "add codes"
    EDIT_DEFINITION = "edit definition"
    EDIT_AND_RESEND = "edit and resend"
    UNDO_MERGE = "undo merge"
    CHECK_CONNECTION = "check connection"
    CHECK_PEERS = "check peers"
    COMPARE_PATIENTS = "compare patients"
    ACKNOWLEDGE = "acknowledge"


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause in words, the action that may remove it ('' if none), and what to do in words."""

    words: str
    action: str = ""
    advice: str = ""


NO_CAUSE: Final = Cause("")

_PATIENTS: Final = "Compare the patients with the sender, correct the wrong side, then replay."
_REVIEW: Final = "Check the order, then mark it as reviewed."
_BY_ITSELF: Final = "It is tried again by itself."
_RESTORED: Final = "Compare reports and results since the backup, then mark it as reviewed."

MESSAGE_CAUSES: Final[Mapping[str, Cause]] = {
    # applied, and a person must check the result
    "report_kept": Cause(
        "The order was cancelled or moved; its report has text and was kept",
        ProposedAction.ACKNOWLEDGE,
        "Decide with the reader what happens to the report, then mark the message as reviewed.",
    ),
    "reported_elsewhere_begun": Cause(
        "The sender says that the order is reported elsewhere; its report was begun here",
        ProposedAction.ACKNOWLEDGE,
        "Decide with the reader whether the report is still needed. Nothing was removed.",
    ),
    "outside_reports_not_supported": Cause(
        "The report service has no place for reports that were not made here",
        ProposedAction.ACKNOWLEDGE,
        "Remove the definition of outside reports from the listener, or use the built-in engine.",
    ),
    "worklist_item": Cause(
        "A value does not fit its attribute on the worklist",
        ProposedAction.EDIT_DEFINITION,
        "Correct the value at the sender, or change the definition of the worklist.",
    ),
    "several_orders": Cause(
        "The order number matches several orders",
        ProposedAction.EDIT_AND_RESEND,
        "Find the right order, then resend the message with its accession number.",
    ),
    "other_accession": Cause(
        "The message matches an order by its numbers, but has another accession number",
        ProposedAction.ACKNOWLEDGE,
        "Ask the sender which accession number is right.",
    ),
    "several_accessions": Cause(
        "The steps of one procedure have several accession numbers",
        ProposedAction.ACKNOWLEDGE,
        "The report and its result have the first number. Ask the sender for one OBR for each.",
    ),
    "other_patient": Cause(
        "The message names the previous patient of a visit that was moved",
        ProposedAction.COMPARE_PATIENTS,
        "The order belongs to the new patient. Check that this is right.",
    ),
    "patient_conflict": Cause(
        "The message names another patient for a known order",
        ProposedAction.COMPARE_PATIENTS,
        _PATIENTS,
    ),
    "order_moved": Cause(
        "The message moved an order to another patient",
        ProposedAction.COMPARE_PATIENTS,
        "Check with the sender that the order belongs to the new patient.",
    ),
    "examined_after_cancel": Cause(
        "An examination was reported after the order was cancelled",
        ProposedAction.ACKNOWLEDGE,
        "Ask whether the images must be read; if so, the sender orders again.",
    ),
    "parent_replaced": Cause(
        "An order was replaced; its child orders stay on the worklist",
        ProposedAction.ACKNOWLEDGE,
        "Ask the sender whether the child orders are still valid.",
    ),
    "superseded": Cause(
        "A message that was sent later had arrived before; this one had no effect",
        ProposedAction.ACKNOWLEDGE,
        _REVIEW,
    ),
    "order_unknown": Cause(
        "The message cancels or holds an order that no other message mentions",
        ProposedAction.ACKNOWLEDGE,
        "Check whether the order was sent to another listener, or with another number.",
    ),
    "order_cancelled": Cause(
        "The message is about an order that was cancelled; it had no effect",
        ProposedAction.ACKNOWLEDGE,
        "If the examination takes place, the sender orders again.",
    ),
    "merge_undone": Cause(
        "A merge of patient numbers was undone",
        ProposedAction.ACKNOWLEDGE,
        "The orders that the merge had moved belong to their own patient again, or stay with the "
        "survivor. Each is listed. Check them.",
    ),
    "identifier_moved": Cause(
        "The message moves a patient number, and there is no merge to undo",
        ProposedAction.COMPARE_PATIENTS,
        "Nothing was changed. Check which patient has the number.",
    ),
    # not applied, and parked
    "merge_contradicted": Cause(
        "The message names a merged patient number, but another person than the survivor",
        ProposedAction.UNDO_MERGE,
        "Compare the patients. If the merge was wrong, undo it; then replay.",
    ),
    "number_reused": Cause(
        "The message names another person than the orders of a number that an undone merge freed",
        ProposedAction.COMPARE_PATIENTS,
        "If it is one person, the registration corrects the birth date first, and then the name.",
    ),
    "several_patients": Cause(
        "The message names several patients by their numbers",
        ProposedAction.COMPARE_PATIENTS,
        _PATIENTS,
    ),
    "patient_merged": Cause(
        "The message names a patient number that was merged into another one",
        ProposedAction.UNDO_MERGE,
        "If the merge was right, resend the message with the surviving number; else undo it.",
    ),
    "content_damaged": Cause(
        "The stored message has changed since it was acknowledged",
        ProposedAction.ACKNOWLEDGE,
        "Check the disk and the database, and ask the sender to send the message again.",
    ),
    "content_missing": Cause(
        "The stored content of the message is missing",
        ProposedAction.REPLAY,
        "Restore the folder of large messages, then replay.",
    ),
    "content_unreadable": Cause(
        "The stored content cannot be read at the moment", advice=_BY_ITSELF
    ),
    "not_readable": Cause(
        "The definition cannot read the message",
        ProposedAction.EDIT_DEFINITION,
        "Correct the definition with this message as an example, then replay.",
    ),
    # queued again
    "hook_not_called": Cause("A hook could not be called: its processes are busy", "", _BY_ITSELF),
    "order_in_progress": Cause("Another message of the order is being applied", "", _BY_ITSELF),
    "merge_being_undone": Cause("An operator undoes a merge of the patient", "", _BY_ITSELF),
    "merged": Cause("The patient was merged while the message waited", "", _BY_ITSELF),
    "interrupted": Cause("The process stopped while the message was applied", "", _BY_ITSELF),
    "not_remembered": Cause("The outcome could not be stored", "", _BY_ITSELF),
    "not_read": Cause("The outcome of a call is not known yet", "", _BY_ITSELF),
    "not_imaging": Cause("The message has no imaging order, so nothing was done"),
    # what modalities sent
    "step_started": Cause("The modality has begun the examination"),
    "step_completed": Cause("The modality has completed the examination"),
    "step_without_end": Cause(
        "The modality has completed the examination; its message names no end or no series"
    ),
    "step_discontinued": Cause("The modality has discontinued the examination"),
    "step_reverted": Cause("The modality had chosen the wrong entry; the step is scheduled again"),
    "object_stored": Cause("The object was added to the report"),
    "object_own": Cause("The PACS sent back a report of this service; nothing is changed"),
    "object_awaits_order": Cause("The object is added when the order is on the worklist"),
    "object_without_order": Cause(
        "No order has the accession number or study that the modality names",
        ProposedAction.REPLAY,
        "It is matched by itself when the order arrives. Check the number at the modality.",
    ),
    "dicom_sr_other_patient": Cause(
        "Name or birth date of the object are not those of the order's patient; it is not used",
        ProposedAction.COMPARE_PATIENTS,
        "Compare the patients. The reader sees a notice on the page of the report.",
    ),
    "dicom_sr_second_version": Cause(
        "The report has an object with this SOP Instance UID and another content; it is not used",
        ProposedAction.ACKNOWLEDGE,
        "A changed object needs a new SOP Instance UID: ask the vendor of the modality.",
    ),
}

DELIVERY_CAUSES: Final[Mapping[str, Cause]] = {
    # no usable reply
    "silence": Cause(
        "The receiver does not reply",
        ProposedAction.CHECK_CONNECTION,
        f"Check the receiver and the network. {_BY_ITSELF}",
    ),
    "mismatch": Cause(
        "The receiver replies to another message (MSA-2 is not our MSH-10)",
        ProposedAction.CHECK_CONNECTION,
        "Ask the receiver's vendor to return MSH-10 in MSA-2.",
    ),
    "garbage": Cause(
        "The reply is no HL7 acknowledgment",
        ProposedAction.CHECK_CONNECTION,
        "Check that the address belongs to an HL7 receiver.",
    ),
    "http": Cause(
        "The receiver replies with an HTTP status and no acknowledgment",
        ProposedAction.CHECK_CONNECTION,
        "Check the address and the sign-in of the destination.",
    ),
    "dicom": Cause(
        "The PACS does not store all objects of the report (DIMSE status)",
        ProposedAction.RETRY,
        "See the statuses in the reply, ask the administrator of the PACS, then retry.",
    ),
    "not_committed": Cause(
        "The PACS says that it does not keep the objects that it stored",
        ProposedAction.RETRY,
        "Ask the administrator of the PACS, then retry.",
    ),
    "commitment_outstanding": Cause(
        "The PACS has not confirmed in time that it keeps the objects",
        ProposedAction.RETRY,
        "Check that the PACS can send storage commitment to this service, then retry.",
    ),
    "commitment_refused": Cause(
        "The PACS has the objects, and refuses to be asked whether it keeps them (N-ACTION status)",
        ProposedAction.RETRY,
        "Ask the administrator of the PACS, then retry; or set commitment = false.",
    ),
    "not_connected": Cause(
        "No connection to the receiver",
        ProposedAction.CHECK_CONNECTION,
        f"Check the address, the receiver and the network. {_BY_ITSELF}",
    ),
    "tls": Cause(
        "The TLS handshake with the receiver failed",
        ProposedAction.CHECK_CONNECTION,
        "Test the connection: it names the certificate that is not accepted.",
    ),
    "interrupted": Cause("The process stopped while the result was sent", "", _BY_ITSELF),
    # not composed
    "not_composed": Cause(
        "The result could not be composed",
        ProposedAction.EDIT_DEFINITION,
        "Correct the definition of the destination, then retry.",
    ),
    "no_definition": Cause(
        "No definition of the destination has a message for this event",
        ProposedAction.EDIT_DEFINITION,
        "Add the event to the definition, or skip the delivery.",
    ),
    "unknown_code": Cause(
        "A code is not in the code table, and the definition refuses unknown codes",
        ProposedAction.ADD_CODES,
        "Add the code, activate, then retry.",
    ),
    "unsettled": Cause(
        "The report changed each time it was read",
        ProposedAction.RETRY,
        "Retry when nobody edits the report.",
    ),
    "not_signed": Cause(
        "The report is not signed any more",
        ProposedAction.SKIP,
        "Skip the delivery; the next signature queues another one.",
    ),
    "content_damaged": Cause(
        "The stored message has changed since it was composed",
        ProposedAction.SKIP,
        "Check the disk and the database; skip the delivery and release the report again.",
    ),
    "no_study": Cause(
        "An order of the report has no StudyInstanceUID, so a PACS cannot file the report",
        ProposedAction.RETRY,
        "Have the sender send it, or use the worklist of this service, then retry.",
    ),
    "character_set": Cause(
        "The character set of the PACS lacks a character of the report",
        ProposedAction.RETRY,
        "Set dicom.charset of the destination to ISO_IR 192, then retry.",
    ),
    "no_document": Cause(
        "There is no DICOM object to send for this event",
        ProposedAction.SKIP,
        "Check dicom.forms of the destination.",
    ),
    "unframeable": Cause(
        "The message contains bytes that MLLP uses for framing",
        ProposedAction.EDIT_DEFINITION,
        "Remove the control characters in the definition, then retry.",
    ),
    # nothing to send
    "never_told": Cause("The receiver never got the text that this would withdraw"),
    "gone": Cause("The report or addendum was deleted or recalled before it was sent"),
    "superseded": Cause("The receiver has this version or a newer one"),
}

ORDER_CAUSES: Final[Mapping[str, Cause]] = {
    "no_report": Cause(
        "The report engine does not know the order",
        ProposedAction.REPLAY,
        "Replay the order's messages.",
    ),
    "still_ordered": Cause(
        "The order is cancelled or on hold, but its report still waits on the worklist",
        ProposedAction.REPLAY,
        "Replay the cancellation, or withdraw the report.",
    ),
    "not_queued": Cause(
        "A result was signed but not queued for a destination",
        ProposedAction.ACKNOWLEDGE,
        "Check that the destination is for this site, then release the report again.",
    ),
    "merge_undone": Cause(
        "A merge that had moved the order was undone",
        ProposedAction.COMPARE_PATIENTS,
        "The order returned, or stays with the survivor. Check whose it is; mark it as reviewed.",
    ),
}

FEED_CAUSES: Final[Mapping[str, Cause]] = {
    "cursor_beyond_end": Cause(
        "The report engine was restored: its change feed ends before the position already read",
        ProposedAction.ACKNOWLEDGE,
        f"The feed is read again from its beginning. {_RESTORED}",
    ),
    "cursor_of_another_feed": Cause(
        "The report engine was restored: its change feed is another one than before",
        ProposedAction.ACKNOWLEDGE,
        f"The feed is read again from its beginning. {_RESTORED}",
    ),
}

ENGINE_CAUSES: Final[Mapping[str, Cause]] = {
    "site_not_found": Cause(
        "The site of the order does not exist",
        ProposedAction.ADD_SITE,
        "Add the site, then try again, oldest first.",
    ),
    "unknown_site": Cause(
        "The site of the order does not exist",
        ProposedAction.ADD_SITE,
        "Add the site, then try again, oldest first.",
    ),
    "patient_name_mismatch": Cause(
        "The patient number belongs to a patient with another name",
        ProposedAction.COMPARE_PATIENTS,
        _PATIENTS,
    ),
    "outside_of_other_patient": Cause(
        "The report of another system is known for another patient",
        ProposedAction.COMPARE_PATIENTS,
        _PATIENTS,
    ),
    "patients_differ": Cause(
        "The orders to be linked name different patients",
        ProposedAction.COMPARE_PATIENTS,
        _PATIENTS,
    ),
    "identifier_merged": Cause(
        "The patient number was merged into another one",
        ProposedAction.UNDO_MERGE,
        "If the merge was right, resend the message with the surviving number; else undo it.",
    ),
    "merge_conflict": Cause(
        "Both patients of the merge have started reports for the same order",
        ProposedAction.COMPARE_PATIENTS,
        "Finish or reset one of the reports, then try again.",
    ),
    "merge_cycle": Cause(
        "The merge contradicts an earlier one: its survivor was merged into the prior number",
        ProposedAction.UNDO_MERGE,
        "Undo the merge that is wrong, then try again.",
    ),
    "merged_elsewhere": Cause(
        "The prior patient number was already merged into another one",
        ProposedAction.UNDO_MERGE,
        "Undo the merge that is wrong, then try again.",
    ),
    "unauthorized": Cause(
        "The report engine does not accept the token of the bridge",
        ProposedAction.REPLAY,
        "Check the token of the site, then try again.",
    ),
    "unreachable": Cause("The report engine cannot be reached", ProposedAction.REPLAY, _BY_ITSELF),
    "no_answer": Cause(
        "The report engine gave no answer in time", ProposedAction.REPLAY, _BY_ITSELF
    ),
    "unreadable": Cause(
        "The answer of the report engine cannot be read",
        ProposedAction.REPLAY,
        "Check that the address belongs to the report engine, then try again.",
    ),
    "bad_address": Cause(
        "An identifier cannot be part of an address of the report engine",
        ProposedAction.EDIT_DEFINITION,
        "Change the rule of the identifier, then try again.",
    ),
    "no_texts": Cause(
        "The report service does not return the texts of a report",
        ProposedAction.SKIP,
        "The destination needs a report service with this function.",
    ),
}
"""Codes of calls to the report engine; those of the contract that are not here have its text."""

_CONTRACT: Final = {code.value: code for code in ErrorCode}
_DESCRIPTIONS: Final = {code.value: words for code, words in ERROR_DESCRIPTIONS.items()}
_HTTP: Final = re.compile(r"http_(\d{3})")
_REPLY: Final = re.compile(r"(AE|AR|CE|CR)\b ?(.*)")
_DICOM: Final = "dicom"
_ACCEPTED: Final = frozenset({AckCode.ACCEPT.value, AckCode.COMMIT_ACCEPT.value})
_RETRIED: Final = frozenset({QueueState.QUEUED, QueueState.CLAIMED})
_WITHOUT_ACTION: Final = frozenset({QueueState.IGNORED, QueueState.CANCELLED})
_LOSSES: Final = {
    "timeout": "no reply within the time limit",
    "closed": "it closed the connection",
    "unframed": "bytes without MLLP framing came",
    "garbage": "a frame that is no reply came",
}
_ALSO_WITH_DETAIL: Final = frozenset(
    {"not_readable", "content_unreadable", "silence", "garbage", "mismatch", "http"}
    | {"not_connected", "tls", "not_composed", "no_definition", "unknown_code", "dicom"}
    | {"step_started", "step_completed", "step_without_end", "step_discontinued", "step_reverted"}
    | {"object_stored", "object_awaits_order", "object_without_order"}
    | {"dicom_sr_other_patient", "dicom_sr_second_version"}
    | {"character_set", "not_committed", "commitment_refused"}
)
"""Codes whose stored detail says more than the code."""
_BY_SUBJECT: Final[Mapping[ExceptionSubject, Mapping[str, Cause]]] = {
    ExceptionSubject.MESSAGE: MESSAGE_CAUSES,
    ExceptionSubject.DELIVERY: DELIVERY_CAUSES,
    ExceptionSubject.ORDER: ORDER_CAUSES,
    ExceptionSubject.FEED: FEED_CAUSES,
}


def cause_of(
    subject: ExceptionSubject, state: str, code: str, detail: str = "", place: str = ""
) -> Cause:
    """
    Return the cause of a row with a code; `detail` is the text that is stored with the code.

    `place` is where the error is in the message. A row that waits for its next attempt has an
    action only if the attempt will fail without it.
    """
    is_stored = code == _DICOM and state == QueueState.DONE
    if code in _ACCEPTED or is_stored or not (code or detail):
        return NO_CAUSE
    cause = _cause(subject, code, detail, place)
    if state in _WITHOUT_ACTION:
        return replace(cause, action="")
    if state in _RETRIED and cause.action in {ProposedAction.REPLAY, ProposedAction.RETRY}:
        return replace(cause, action="", advice=_BY_ITSELF)
    return cause


def _cause(subject: ExceptionSubject, code: str, detail: str, place: str) -> Cause:
    name, _, rest = code.partition(" ")  # `not_queued NAME`
    known = _BY_SUBJECT[subject].get(name) or ENGINE_CAUSES.get(name)
    if known is not None:
        more = rest or (detail if name in _ALSO_WITH_DETAIL else "")
        found = replace(known, words=_joined(known.words, _LOSSES.get(more, more)))
        return _for_subject(subject, found)
    if subject is ExceptionSubject.DELIVERY and (reply := _REPLY.fullmatch(f"{code} {detail}")):
        return _refused_by_receiver(reply[1], reply[2])
    if name in _DESCRIPTIONS:
        return _refused_by_us(name, detail, place)
    return _for_subject(subject, _of_engine(name, detail))


def _for_subject(subject: ExceptionSubject, cause: Cause) -> Cause:
    """A delivery is retried where a message is replayed."""
    if subject is ExceptionSubject.DELIVERY and cause.action == ProposedAction.REPLAY:
        return replace(cause, action=ProposedAction.RETRY)
    return cause


_OF_CONTENT: Final = frozenset({"101", "102", "103", "104", "198"})
"""Codes of table 0357 about the content of a message."""
_NO_ENTRY: Final = "103"


def _refused_by_us(code: str, detail: str, place: str) -> Cause:
    """Return the cause of a message that a listener refused with a code of table 0357."""
    at = f" at {place}" if place else ""
    words = _joined(f"{code} {_DESCRIPTIONS[code]}{at}", detail)
    if code == _NO_ENTRY:
        return Cause(words, ProposedAction.ADD_CODES, "Add the code, activate, then replay.")
    if code in _OF_CONTENT:
        advice = "Correct the definition or the sender, then replay or edit and resend."
        return Cause(words, ProposedAction.EDIT_DEFINITION, advice)
    return Cause(words, ProposedAction.ACKNOWLEDGE, "Correct the listener, or ask the sender.")


def _refused_by_receiver(reply: str, detail: str) -> Cause:
    """Return the cause of a result that was answered with AE, AR, CE or CR."""
    number = detail.strip()
    words = " ".join(filter(None, (reply, number, _DESCRIPTIONS.get(number, ""))))
    if number == _NO_ENTRY:
        action, advice = ProposedAction.ADD_CODES, "Add the receiver's code, then retry."
    elif number in _OF_CONTENT:
        action, advice = ProposedAction.EDIT_DEFINITION, "Correct the definition, then retry."
    else:
        action, advice = ProposedAction.RETRY, "Ask the receiver's administrator, then retry."
    return Cause(f"The receiver refuses the result: {words}", action, advice)


def _of_engine(code: str, detail: str) -> Cause:
    """Return the cause of a code of the report engine, or of a code of another release."""
    advice = "Correct the cause, then try again."
    if code in _CONTRACT:
        entry = _CONTRACT[code]
        return Cause(f"The report engine refuses: {entry.text}", ProposedAction.REPLAY, advice)
    if status := _HTTP.fullmatch(code):
        words = f"The report engine replied with HTTP status {status[1]}"
        return Cause(words, ProposedAction.REPLAY, advice)
    return Cause(" ".join(filter(None, (code, detail))), ProposedAction.REPLAY, advice)


def _joined(words: str, more: str) -> str:
    return f"{words}: {more}" if more else words
