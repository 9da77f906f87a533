"""
Broken rules: the error codes of the API and their messages.

Messages name rules and places, never a submitted value.
"""

from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """A broken rule; the member's value is the `code` of the problem body."""

    SIGNED = "report_signed"
    NOT_OWNED = "report_not_assigned"
    NOT_DRAFT = "report_not_draft"
    NOT_EDITABLE = "report_not_editable"
    BEGUN = "report_begun"
    NOT_SIGNED = "report_not_signed"
    NOT_FROM_ORDER = "report_not_from_order"
    NOTHING_TO_RESET = "nothing_to_reset"
    ADDENDUM_OPEN = "addendum_already_open"
    NO_OPEN_ADDENDUM = "no_open_addendum"
    EMPTY_ADDENDUM = "empty_addendum"
    UNKNOWN_PRELIM_GROUP = "unknown_prelim_group"
    UNKNOWN_PRELIM_TAG = "unknown_prelim_tag"
    NOT_PRELIM_MEMBER = "not_prelim_member"
    NOT_PRELIM_REVIEWER = "not_prelim_reviewer"
    NOT_PRELIMINARY = "report_not_preliminary"
    TOO_FEW_ORDERS = "too_few_orders"
    ANCHOR_IS_MEMBER = "anchor_in_another_group"
    ANCHOR_STATUS = "anchor_not_ordered_or_draft"
    ANCHOR_HAS_CONTENT = "anchor_has_content"
    ORDER_NOT_ORDERED = "order_not_ordered"
    ORDER_HAS_CONTENT = "order_has_content"
    PATIENTS_DIFFER = "patients_differ"
    GROUP_NOT_ORDERED = "group_not_ordered"
    GROUP_HAS_CONTENT = "group_has_content"
    NO_FILES = "no_files"
    BAD_DOCUMENT = "bad_document"
    IDENTIFIER_MERGED = "identifier_merged"
    MERGE_CYCLE = "merge_cycle"
    MERGED_ELSEWHERE = "merged_elsewhere"
    SAME_PATIENT = "same_patient"
    PLACEHOLDER = "placeholder_identifier"
    UNKNOWN_LOCATION = "unknown_location"
    BAD_CURSOR = "bad_cursor"
    BAD_SORT = "bad_sort"
    TOO_MANY_MACROS = "too_many_macros"


TEXTS: Mapping[Reason, str] = {
    Reason.SIGNED: "the report is signed",
    Reason.NOT_OWNED: "the report is assigned to nobody; launch it for a user first",
    Reason.NOT_DRAFT: "the report is not a Draft",
    Reason.NOT_EDITABLE: "the report cannot be edited in its present status",
    Reason.BEGUN: "the report is no longer an empty Ordered one; it is kept",
    Reason.NOT_SIGNED: "the report is not signed",
    Reason.NOT_FROM_ORDER: "only a Draft that was initially created as Ordered can be reset",
    Reason.NOTHING_TO_RESET: "the report is Ordered and has no content: there is nothing to reset",
    Reason.ADDENDUM_OPEN: "the report already has an addendum that is being written",
    Reason.NO_OPEN_ADDENDUM: "the report has no addendum that is being written",
    Reason.EMPTY_ADDENDUM: "an addendum without text cannot be signed",
    Reason.UNKNOWN_PRELIM_GROUP: "the site has no such prelim group",
    Reason.UNKNOWN_PRELIM_TAG: "the prelim group has no such tag",
    Reason.NOT_PRELIM_MEMBER: "the report's reader is not a member of the prelim group",
    Reason.NOT_PRELIM_REVIEWER: "the user is neither the reader nor a reviewer of the prelim group",
    Reason.NOT_PRELIMINARY: "the report is not Preliminary",
    Reason.TOO_FEW_ORDERS: "at least two different orders are needed",
    Reason.ANCHOR_IS_MEMBER: "the anchor is a linked order of another report; unlink it first",
    Reason.ANCHOR_STATUS: "the anchor is neither Ordered nor Draft",
    Reason.ANCHOR_HAS_CONTENT: "the anchor was unassigned and keeps content; reset it first",
    Reason.ORDER_NOT_ORDERED: "the order is not Ordered; a Draft must be reset first",
    Reason.ORDER_HAS_CONTENT: "the order's report has content; reset it first",
    Reason.PATIENTS_DIFFER: (
        "PatientMRN differs from the anchor's, and name and birth date do not both match"
    ),
    Reason.GROUP_NOT_ORDERED: (
        "the group's report is not Ordered; unassign and reset it, or reset it, first"
    ),
    Reason.GROUP_HAS_CONTENT: "the group's report has content; reset it first",
    Reason.NO_FILES: "at least one DICOM SR file is needed",
    Reason.BAD_DOCUMENT: "the document is not of the report's content model",
    Reason.IDENTIFIER_MERGED: "the patient identifier was merged into another one",
    Reason.MERGE_CYCLE: "the surviving identifier was itself merged into the prior one",
    Reason.MERGED_ELSEWHERE: "the prior identifier was already merged into another one",
    Reason.SAME_PATIENT: "the two patient identifiers are the same",
    Reason.PLACEHOLDER: "a patient identifier is an e-mail address or the user's own identity",
    Reason.UNKNOWN_LOCATION: "the site has no such location",
    Reason.BAD_CURSOR: "the cursor is not one that this endpoint gave out",
    Reason.BAD_SORT: "the sort order is not one of those documented",
    Reason.TOO_MANY_MACROS: "there are as many macros as there may be; remove some first",
}
