"""
Propose a definition from sample messages of a new sender, with the evidence for each line.

A proposal is to be read, edited and checked: it counts what stands where, and knows nothing of
what the sender means. Evidence tells places, counts and codes; no patient's values.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mappings.evidence import Field, Samples, charset_of, read_samples
from mappings.hl7.charset import is_codec

ORDERS = ("ORM^", "OMG^", "OMI^")
MRN_PLACES = ("PID-3.1", "PID-2.1", "PID-4.1")
ACCESSION_PLACES = (
    *("IPC-1.1", "OBR-18.1", "OBR-3.2", "ORC-3.2", "OBR-3.1", "ORC-3.1"),
    *("OBR-20.1", "OBR-19.1", "OBR-2.1", "ORC-2.1"),
)
_ASSIGNERS = ("OBR-3.2", "ORC-3.2")
_MOST = 0.9  # of the groups: a place that is filled, or differs, nearly always
_HALF = 0.5  # an order is often spoken of twice: changed, cancelled
_LONGEST_ACCESSION = 16  # DICOM SH


@dataclass(frozen=True, slots=True)
class Proposal:
    """A definition as YAML with its evidence as comments, and the charset for the listener."""

    text: str
    charset: str
    unread: int
    """Samples that could not be read at all."""


def learn(raw: Sequence[bytes]) -> Proposal:
    """Propose a definition of orders from messages, as they were on the wire."""
    samples = read_samples(raw)
    charset, why = charset_of(raw)
    known = charset if is_codec(charset) else "utf-8"
    lines = [
        f"# Proposed from {len(samples.messages)} messages; {samples.unread} could not be read."
    ]
    lines += [f"# Charset of the listener: {charset}. {why}", "", "kind: orders"]
    lines += ["include: orders.yaml", *_accept(samples), *_tags(samples), *_metadata(samples)]
    lines += _controls(samples)
    return Proposal("\n".join(lines) + "\n", known, samples.unread)


def _accept(samples: Samples) -> list[str]:
    headers = [message.header for message in samples.messages]
    types = Counter(f"{each.message_code}^{each.trigger or 'O01'}" for each in headers)
    if not types:
        return []
    counted = ", ".join(f"{name} {count}" for name, count in types.most_common())
    lines = ["", f"# Types: {_printable(counted)}. Only orders belong here.", "accept:"]
    taken = [name for name in types if name.startswith(ORDERS)]
    lines += [f"  messages: [{', '.join(map(_quoted, taken or ['ORM^O01']))}]"]
    names = ("MSH-3.1", "MSH-4.1")
    who = {tuple(each.value(name).strip() for name in names): None for each in samples.messages}
    senders = [
        f"    - {{application: {_quoted(application)}, facility: {_quoted(facility)}}}"
        for application, facility in who
        if application or facility
    ]
    return [*lines, "  senders:", *senders] if senders else lines


def _tags(samples: Samples) -> list[str]:
    lines = ["", "tags:"]
    for tag, choose in (("PatientMRN", _mrn), ("Accession", _accession)):
        place, others, why = choose(samples)
        if not place:
            lines.append(f"  # {tag}: {why}")
            continue
        sources = ", ".join(map(_quoted, (place, *others)))
        lines += [f"  # {_printable(why)}", f"  {tag}: {{from: [{sources}], required: true}}"]
    uid = next((each for each in samples.z_fields() if each.uids), None)
    if uid is not None and uid.path != "ZDS-1.1":
        lines += [
            f"  # {uid.path} holds DICOM UIDs, {uid.told(len(samples.groups))}.",
            "  StudyInstanceUID:",
            "    - {from: IPC-3.1, as: study-uid}",
            f"    - {{from: {uid.path}, as: study-uid}}",
        ]
    return lines if len(lines) > 2 else []  # noqa: PLR2004  # more than its heading


def _mrn(samples: Samples) -> tuple[str, list[str], str]:
    """Choose the place of the MRN: a repetition marked MR, one authority's, else what is filled."""
    total = len(samples.groups)
    marked = samples.picked("CX-5", "5")
    if "MR" in marked and marked["MR"] >= _MOST * total:
        authorities = samples.picked("CX-4", "4")
        told = f", by {len(authorities)} authorities" if authorities else ""
        why = f"PID-3 has a repetition marked MR in {marked['MR']} of {total} groups{told}."
        return "PID-3[CX-5=MR].1", _filled(samples, MRN_PLACES, ""), why
    if samples.most_repetitions > 1 and (authorities := samples.picked("CX-4", "4")):
        name, count = authorities.most_common(1)[0]
        why = f"PID-3 marks none MR; authority {name} is in {count} of {total} groups."
        return f"PID-3[CX-4={name}].1", _filled(samples, MRN_PLACES, ""), why
    for path in MRN_PLACES:
        found = samples.field(path)
        if found.filled:
            why = f"{path} is filled in {found.told(total)}; places before it are empty."
            return path, _filled(samples, MRN_PLACES, path), why
    return "", [], "no value in PID-3, PID-2 or PID-4 of any sample; name its place."


def _accession(samples: Samples) -> tuple[str, list[str], str]:
    """Choose the first place that is filled and differs from order to order."""
    total = len(samples.groups)
    fields = [samples.field(path) for path in ACCESSION_PLACES]

    def suits(each: Field) -> bool:
        differs = each.different >= _HALF * each.filled
        short = each.longest <= _LONGEST_ACCESSION
        return each.filled >= _HALF * total and differs and short and _is_number(each, total)

    chosen: Callable[[Field], bool]
    for chosen in (suits, lambda each: each.filled > 0):
        for each in fields:
            if chosen(each):
                why = f"{each.path}: {each.told(total)}, at most {each.longest} characters."
                fit = [other.path for other in fields if other is not each and suits(other)]
                why += f" As good: {', '.join(fit)}." if fit else ""
                return each.path, _filled(samples, ACCESSION_PLACES, each.path), why
    return "", [], "no number in any of the usual places; name its place."


def _is_number(field: Field, total: int) -> bool:
    """OBR-3.2 and ORC-3.2 say who assigned a number, unless they differ like numbers."""
    if field.path not in _ASSIGNERS:
        return True
    return total > 1 and field.different >= _MOST * total and field.digits >= _MOST * field.filled


def _filled(samples: Samples, places: Sequence[str], but: str) -> list[str]:
    """Give further places: those with a value in groups where the first may have none."""
    total = len(samples.groups)
    if but and samples.field(but).filled == total:
        return []
    return [
        path for path in places if path not in (but, *_ASSIGNERS) and samples.field(path).filled
    ]


def _metadata(samples: Samples) -> list[str]:
    total = len(samples.groups)
    found = [each for each in samples.z_fields() if not each.uids]
    if not found:
        return []
    lines = ["", "# Z segments are kept whole; fields that should have a name of their own:"]
    lines += ["metadata:", "  values:"]
    return lines + [
        f"    {each.path.replace('-', '_').replace('.', '_')}: {each.path}"
        f"        # {each.told(total)}; rename it"
        for each in found
    ]


def _controls(samples: Samples) -> list[str]:
    total = len(samples.groups)
    codes = Counter(filter(None, (samples.value(group, "ORC-1") for group in samples.groups)))
    told = ", ".join(f"{code} {count}" for code, count in codes.most_common())
    return (
        ["", f"# Order control, ORC-1 of {total} groups: {_printable(told) or 'none'}."]
        if total
        else []
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _printable(text: str) -> str:
    """Keep a comment on its line, whatever a sender wrote."""
    return "".join(each if each.isprintable() else "?" for each in text)
