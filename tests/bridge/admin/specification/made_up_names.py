"""The invented persons and numbers of made-up messages."""

INVENTED = frozenset(
    {"", "MRN1001", "SPECIMEN", "REFERRER", "PatientMRN 1", "Patient ID", "PATIENT"}
)
