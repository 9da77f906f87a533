"""
The error codes of the HTTP interface: the owner of each code, its status and its text.

`docs/reference/error-codes.md` lists them; a test compares it with this module.
"""

from enum import StrEnum
from typing import Final, Self


class ErrorCode(StrEnum):
    """The `code` of a problem body. `text` is its `detail` if the problem has none of its own."""

    status: int
    text: str
    retryable: bool

    def __new__(cls, code: str, status: int = 0, text: str = "", retryable: bool = False) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.status, member.text, member.retryable = status, text, retryable
        return member

    ACCOUNT_DISABLED = "account_disabled", 403, "the account is disabled"
    ACCOUNT_NOT_FOUND = "account_not_found", 404, "there is no such account"
    ADDENDUM_ALREADY_OPEN = (
        "addendum_already_open",
        400,
        "the report already has an addendum that is being written",
    )
    ADDRESS_TAKEN = "address_taken", 409, "another account has this e-mail address"
    ALREADY_SIGNED = "already_signed", 500, "the report is already signed"
    ANCHOR_HAS_CONTENT = (
        "anchor_has_content",
        400,
        "the anchor was unassigned and keeps content; reset it first",
    )
    ANCHOR_IN_ANOTHER_GROUP = (
        "anchor_in_another_group",
        400,
        "the anchor is a linked order of another report; unlink it first",
    )
    ANCHOR_NOT_ORDERED_OR_DRAFT = (
        "anchor_not_ordered_or_draft",
        400,
        "the anchor is neither Ordered nor Draft",
    )
    APP_NOT_BUILT = (
        "app_not_built",
        503,
        "the web apps are not built into this installation; run `make app`",
    )
    AUTH_INVALID = "auth_invalid", 403, "userInfo.Auth is not a valid access token"
    AUTHOR_MAY_NOT_PRELIM = (
        "author_may_not_prelim",
        403,
        (
            "the report's owner may not make preliminary reads on this site: the role does not "
            "permit it, or the owner has left the site"
        ),
    )
    AUTHOR_MAY_NOT_SIGN = (
        "author_may_not_sign",
        403,
        (
            "the report's owner may not sign on this site: the role does not permit it, or the "
            "owner has left the site"
        ),
    )
    BAD_BASE64 = "bad_base64", 400, "a file is not base64"
    BAD_CODE_MAP = "bad_code_map", 400, "the code map cannot be read; `detail` names the line"
    BAD_CURSOR = "bad_cursor", 400, "the cursor is not from a response of this endpoint"
    BAD_DOCUMENT = "bad_document", 400, "the document does not follow the report's content model"
    BAD_EMAIL = "bad_email", 400, "UserEmail is not an e-mail address"
    BAD_PDF = "bad_pdf", 400, "the file is not a PDF"
    BAD_QR_OPTIONS = (
        "bad_qr_options",
        400,
        "qrCodeOptions: size is standard or mini, mode is light or dark",
    )
    BAD_SITE = "bad_site", 400, "a setting of the site is not valid; `detail` names it"
    BAD_SORT = "bad_sort", 400, "the sort order is not one of those documented"
    BAD_TEMPLATE = (
        "bad_template",
        400,
        "ApplyTemplate is not a template number, or a template cannot be read",
    )
    BAD_USER = "bad_user", 400, "a value of the user is not valid; `detail` names it"
    BAD_ZONE = "bad_zone", 400, "timeZone is not an IANA time zone"
    BATCH_TOO_LARGE = (
        "batch_too_large",
        400,
        "the batch has more launches than one request may have",
    )
    BEING_EDITED = "being_edited", 409, "another session is writing this report"
    BUSY = "busy", 503, "too many documents are being read at the moment", True
    CHANGED = "changed", 409, "an order changed during processing; retry", True
    CONFLICT = "conflict", 409, "the request conflicts with the current state"
    COOLING_ELAPSED = "cooling_elapsed", 500, "the sign cooling period is over"
    CURSOR_BEYOND_END = (
        "cursor_beyond_end",
        409,
        "the cursor is beyond the end of the feed: it was restored or replaced; read it from 0",
    )
    CURSOR_OF_ANOTHER_FEED = (
        "cursor_of_another_feed",
        409,
        "the cursor belongs to another feed: it was restored or replaced; read it from 0",
    )
    EMPTY_ADDENDUM = "empty_addendum", 400, "an addendum without text cannot be signed"
    EMPTY_FILE = "empty_file", 400, "a file is empty"
    FILE_TOO_LARGE = "file_too_large", 400, "a file is larger than the service takes"
    FORBIDDEN = "forbidden", 403, "the caller may not do this"
    FOREIGN_ORIGIN = "foreign_origin", 403, "the request was sent by a page of another origin"
    FRAME_NOT_PERMITTED = "frame_not_permitted", 403, "this link does not open inside another page"
    GROUP_HAS_CONTENT = "group_has_content", 400, "the group's report has content; reset it first"
    GROUP_NOT_ORDERED = (
        "group_not_ordered",
        400,
        "the group's report is not Ordered; unassign and reset it, or reset it, first",
    )
    GROUP_TOO_LARGE = "group_too_large", 400, "a report may have at most 100 orders"
    IDENTIFIER_MERGED = (
        "identifier_merged",
        400,
        "the patient identifier was merged into another one",
    )
    IMAGE_EMPTY = "image_empty", 400, "the image is empty"
    IMAGE_MALFORMED = "image_malformed", 400, "the image is damaged or incomplete"
    IMAGE_NOT_RECOGNIZED = (
        "image_not_recognized",
        400,
        "the data is not a PNG, JPEG, GIF or WebP image",
    )
    IMAGE_TOO_COSTLY = "image_too_costly", 400, "the image takes too long to read"
    IMAGE_TOO_LARGE = "image_too_large", 400, "the image is larger than this service accepts"
    IMAGE_TOO_MANY_PIXELS = (
        "image_too_many_pixels",
        400,
        "the image has more pixels than this service accepts",
    )
    IMAGE_TYPE_UNSUPPORTED = (
        "image_type_unsupported",
        400,
        "the media type is not one of image/png, jpeg, gif, webp",
    )
    INTERNAL_ERROR = (
        "internal_error",
        500,
        "the service failed; the failure was logged (no X-Error-Class)",
    )
    INVALID_JSON = "invalid_json", 400, "the body is not JSON"
    INVALID_REQUEST = (
        "invalid_request",
        400,
        "the request is not of the documented shape; `errors` names each place",
    )
    KEY_REUSED = "key_reused", 409, "the Idempotency-Key was used for another request"
    LAST_ADMINISTRATOR = "last_administrator", 403, "this is the last system administrator"
    LINK_EXPIRED = "link_expired", 410, "this link has expired"
    LINK_NOT_FOUND = "link_not_found", 404, "this link does not exist"
    LOGIN_NEEDED = "login_needed", 401, "sign in to open this report"
    MERGE_CONFLICT = (
        "merge_conflict",
        409,
        "both patients have started reports for the same accession",
    )
    MERGE_CYCLE = (
        "merge_cycle",
        400,
        "the surviving identifier was itself merged into the prior one",
    )
    MERGED_ELSEWHERE = (
        "merged_elsewhere",
        400,
        "the prior identifier was already merged into another one",
    )
    METADATA_TOO_DEEP = "metadata_too_deep", 400, "Metadata is nested too deeply"
    METADATA_TOO_LARGE = "metadata_too_large", 400, "Metadata is too large"
    METHOD_NOT_ALLOWED = "method_not_allowed", 405, "the path has no such method"
    MISSING_PARAMETER = (
        "missing_parameter",
        400,
        "a query parameter of the browser route is missing",
    )
    MISSING_TAG = (
        "missing_tag",
        400,
        "an identifying tag is missing from clinicalInfo and from the patient's DICOM SR files",
    )
    MISSING_USER = (
        "missing_user",
        400,
        "the token belongs to no user, so UserEmail must name the owner of the report",
    )
    MODEL_FAILED = "model_failed", 502, "the model's endpoint did not respond as expected", True
    NO_FILES = "no_files", 400, "at least one DICOM SR file is needed"
    NO_OPEN_ADDENDUM = "no_open_addendum", 400, "the report has no addendum that is being written"
    NO_RECOGNIZER = "no_recognizer", 404, "this installation has no speech recognizer"
    NO_SIGNED_ADDENDUM = "no_signed_addendum", 500, "the report has no signed addendum"
    NO_SUCH_PATH = "no_such_path", 404, "there is no such path or file"
    NOT_A_RECORDING = (
        "not_a_recording",
        415,
        "the body is not a recording in a supported audio format",
    )
    NOT_FOUND = "not_found", 404, "not found"
    NOT_JSON = "not_json", 400, "the body is not declared as application/json"
    NOT_PERMITTED = "not_permitted", 403, "the caller may not do this to this account"
    NOT_PRELIM_MEMBER = (
        "not_prelim_member",
        400,
        "the report's reader is not a member of the prelim group",
    )
    NOT_PRELIM_REVIEWER = (
        "not_prelim_reviewer",
        400,
        "the user is neither the reader nor a reviewer of the prelim group",
    )
    NOT_SIGNED = "not_signed", 500, "the report is not signed"
    NOTHING_TO_RESET = (
        "nothing_to_reset",
        400,
        "the report is Ordered and has no content: there is nothing to reset",
    )
    ORDER_HAS_CONTENT = "order_has_content", 400, "the order's report has content; reset it first"
    ORDER_NOT_ORDERED = (
        "order_not_ordered",
        400,
        "the order is not Ordered; a Draft must be reset first",
    )
    OVERLOADED = "overloaded", 503, "too many requests are in progress", True
    OWN_ACCOUNT = "own_account", 403, "nobody does this to their own account"
    OWNER_ONLY = "owner_only", 403, "only the owner of an account sets its password"
    PASSWORD_COMMON = "password_common", 400, "the password is a common one"
    PASSWORD_NOT_ACCEPTED = (
        "password_not_accepted",
        400,
        "only the owner of an account may set its password, with an enrolment link",
    )
    PASSWORD_PERSONAL = "password_personal", 400, "the password is the e-mail address or the name"
    PASSWORD_TOO_LONG = "password_too_long", 400, "the password has more than 1024 bytes"
    PASSWORD_TOO_WEAK = (
        "password_too_weak",
        400,
        "the password has fewer than 12 characters and is easy to guess",
    )
    OUTSIDE_OF_NOBODY = "outside_of_nobody", 400, "PatientMRN or Accession is required"
    OUTSIDE_OF_OTHER_PATIENT = (
        "outside_of_other_patient",
        409,
        "the outside report is known for another patient",
    )
    PATIENT_NAME_MISMATCH = (
        "patient_name_mismatch",
        409,
        "reports with this PatientMRN have another PatientName",
    )
    PATIENTS_DIFFER = (
        "patients_differ",
        400,
        "PatientMRN differs from the anchor's, and name and birth date do not both match",
    )
    PDF_UNAVAILABLE = "pdf_unavailable", 501, "the PDF writer is not installed"
    PLACEHOLDER_IDENTIFIER = (
        "placeholder_identifier",
        400,
        "a patient identifier is an e-mail address or the user's own identity",
    )
    PRELIM_NOT_FOUND = "prelim_not_found", 404, "the site has no such prelim group or tag"
    PRELIM_READ_NOT_FOUND = (
        "prelim_read_not_found",
        404,
        "the report has no preliminary read of that time",
    )
    QR_TOO_LONG = "qr_too_long", 400, "the link does not fit into a QR code of this size"
    REAUTHENTICATION_REQUIRED = (
        "reauthentication_required",
        403,
        "the last proof of identity is too old; the user must confirm the password first",
    )
    REFUSED = "refused", 500, "the engine refused the request"
    REGISTER_NEEDS_LAZY = "register_needs_lazy", 400, "registerOrder needs lazyLaunch: true"
    REPORT_BEGUN = (
        "report_begun",
        400,
        "the report is not an empty Ordered report any more and is not deleted",
    )
    REPORT_DELETED = "report_deleted", 410, "this report no longer exists"
    REPORT_NOT_ASSIGNED = (
        "report_not_assigned",
        400,
        "the report is assigned to nobody; launch it for a user first",
    )
    REPORT_NOT_DRAFT = "report_not_draft", 400, "the report is not a Draft"
    REPORT_NOT_EDITABLE = (
        "report_not_editable",
        400,
        "the report cannot be edited in its current status",
    )
    REPORT_NOT_FOUND = (
        "report_not_found",
        404,
        "no report for this SiteID, PatientMRN and Accession",
    )
    REPORT_NOT_FROM_ORDER = (
        "report_not_from_order",
        400,
        "only a Draft that was initially created as Ordered can be reset",
    )
    REPORT_NOT_PRELIMINARY = "report_not_preliminary", 400, "the report is not Preliminary"
    REPORT_NOT_SIGNED = "report_not_signed", 400, "the report is not signed"
    REPORT_SIGNED = "report_signed", 400, "the report is signed"
    RETURNED_TO_UNREAD = (
        "returned_to_unread",
        409,
        "the order was returned to the unread ones, and this message is not later than the last",
    )
    ROUTE_DISABLED = "route_disabled", 403, "the browser route is switched off"
    SAME_PATIENT = "same_patient", 400, "the two patient identifiers are the same"
    SIGN_DELAY_DISABLED = "sign_delay_disabled", 500, "the site has no sign cooling period"
    SIGN_IN_BUSY = (
        "sign_in_busy",
        503,
        "too many users are signing in at the moment; try again",
        True,
    )
    SIGNED_OUT = "signed_out", 401, "sign in to do this"
    SIGNING_PROHIBITED = "signing_prohibited", 400, "the site's checks prohibit signing this report"
    SITE_EXISTS = "site_exists", 409, "a site with this SiteID already exists"
    SITE_NOT_FOUND = "site_not_found", 404, "site not found"
    SR_MALFORMED = "sr_malformed", 400, "the structured report is damaged or incomplete"
    SR_NOT_DICOM = "sr_not_dicom", 400, "the file is not DICOM"
    SR_NOT_STRUCTURED_REPORT = (
        "sr_not_structured_report",
        400,
        "the file is DICOM, but not a structured report",
    )
    SR_TOO_COSTLY = "sr_too_costly", 400, "the file takes too long to read"
    SR_TOO_DEEP = "sr_too_deep", 400, "the content tree is nested too deeply"
    SR_TOO_LARGE = "sr_too_large", 400, "the file is larger than this service reads"
    SR_TOO_MANY_ITEMS = "sr_too_many_items", 400, "the content tree has too many items"
    STUDY_NOT_ACCEPTED = (
        "study_not_accepted",
        400,
        "a request for a pre-warmed session must not name a patient or study",
    )
    SUPERSEDED = "superseded", 409, "a newer launch has replaced this one"
    TARGET_MAY_MORE = "target_may_more", 403, "the account has rights that the caller does not have"
    TOO_FEW_ORDERS = "too_few_orders", 400, "at least two different orders are needed"
    TOO_LARGE = "too_large", 413, "the request has more bytes than the service accepts"
    TOO_LONG = "too_long", 400, "a value is longer than the service accepts"
    TOO_MANY_ATTEMPTS = (
        "too_many_attempts",
        429,
        "too many attempts; wait as long as `Retry-After` says",
        True,
    )
    TOO_MANY_FILES = "too_many_files", 400, "the launch has more files than the service accepts"
    TOO_MANY_MACROS = (
        "too_many_macros",
        400,
        "the maximum number of macros is reached; remove some first",
    )
    TOO_MANY_ORDERS = "too_many_orders", 400, "the list has more orders than one request may have"
    TOO_MANY_PRELIM_TAGS = (
        "too_many_prelim_tags",
        400,
        "the site's maximum number of prelim groups or tags is reached",
    )
    TOO_MANY_REQUESTS = (
        "too_many_requests",
        429,
        "the quota is used up; wait as long as `Retry-After` says",
        True,
    )
    TOO_MANY_TOKENS = (
        "too_many_tokens",
        400,
        "the user has the maximum number of access tokens; revoke some first",
    )
    TOO_MANY_VALUES = "too_many_values", 413, "the body has too many values"
    TOO_MANY_WAITING = "too_many_waiting", 429, "too many requests of this caller wait", True
    TOO_MANY_WORDS = "too_many_words", 400, "at most 20 words can be searched"
    TOO_MUCH_TEXT = (
        "too_much_text",
        400,
        "with this text the stored texts would exceed their maximum total size",
    )
    UNAUTHORIZED = "unauthorized", 401, "a valid access token is required"
    UNAVAILABLE = "unavailable", 503, "the service is not available at the moment", True
    UNKNOWN_ACCOUNT = "unknown_account", 403, "there is no such account"
    UNKNOWN_FORMAT = "unknown_format", 400, "ReturnFormat is not HL7"
    UNKNOWN_LANGUAGE = "unknown_language", 400, "the language is not a supported code"
    UNKNOWN_LOCATION = "unknown_location", 400, "the site has no such location"
    UNKNOWN_PRELIM_GROUP = "unknown_prelim_group", 400, "the site has no such prelim group"
    UNKNOWN_PRELIM_TAG = "unknown_prelim_tag", 400, "the prelim group has no such tag"
    UNKNOWN_SITE = "unknown_site", 403, "there is no such site"
    USER_NOT_FOUND = "user_not_found", 403, "the site has no such user"
    USER_NOT_PERMITTED = (
        "user_not_permitted",
        403,
        "only a site administrator may launch for a user who is not a member of the site",
    )
    VERSION_CONFLICT = (
        "version_conflict",
        409,
        "the report was changed after it was loaded; load it again",
    )
    WRONG_PASSWORD = "wrong_password", 400, "the current password is wrong"


FINAL_CODES: Final = frozenset(
    {
        ErrorCode.PATIENT_NAME_MISMATCH,
        ErrorCode.MERGE_CONFLICT,
        ErrorCode.ALREADY_SIGNED,
        ErrorCode.NOT_SIGNED,
        ErrorCode.COOLING_ELAPSED,
        ErrorCode.NO_SIGNED_ADDENDUM,
        ErrorCode.SIGN_DELAY_DISABLED,
    }
)
"""Codes for which a retry cannot help, even with status 409 or 500 (interface reference)."""
