"""An age, as the report service has it: DICOM's Age String (VR AS, PS3.5 §6.2)."""

from datetime import date

from mappings.hl7.times import Precision, parse_timestamp

_MONTHS_ONLY_BELOW = 24
_DAYS_ONLY_BELOW = 1
_LONGEST = 999


def age_on(born: date, on: date) -> str:
    """Write days in the first month, months up to two years, then years; '' before birth."""
    days = (on - born).days
    if days < 0:
        return ""
    months = (on.year - born.year) * 12 + on.month - born.month - (on.day < born.day)
    if months < _DAYS_ONLY_BELOW:
        return f"{days:03d}D"
    if months < _MONTHS_ONLY_BELOW:
        return f"{months:03d}M"
    return f"{min(months // 12, _LONGEST):03d}Y"


def age_at(birth: str, day: str) -> str:
    """Write the age of who was born on one day at another; '' where one of them is no whole day."""
    born, on = parse_timestamp(birth), parse_timestamp(day)
    if born is None or on is None or min(born.precision, on.precision) < Precision.DAY:
        return ""
    return age_on(born.local.date(), on.local.date())
