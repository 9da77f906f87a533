"""Synthetic, numbered orders as a hospital sends them."""


def order(
    number: int,
    *,
    mrn: str = "",
    accession: str = "",
    control: str = "NW",
    status: str = "",
    name: str = "DOE^JANE",
    msh10: str = "",
    study: str = "",
    title: str = "CT CHEST",
    group: str = "",
    parent: str = "",
    sent: str = "20260102030405",
    modes: str = "|",
    extra: str = "",
) -> bytes:
    """An ORM^O01 2.5.1 with one imaging group; `group` is ORC-4, `modes` is MSH-15|MSH-16."""
    mrn, msh10 = mrn or f"M{number}", msh10 or f"C{number}"
    return (
        f"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|{sent}||ORM^O01^ORM_O01|{msh10}|P|2.5.1"
        f"|||{modes}||UNICODE UTF-8\r"
        f"PID|1||{mrn}^^^HOSP^MR||{name}||19700203|F\r"
        "PV1|1|O|CT^^^HOSP||||1234^ROE^RICHARD\r"
        + group_of(number, accession, control, status, study, title, group, parent)
        + extra
    ).encode()


def group_of(
    number: int,
    accession: str = "",
    control: str = "NW",
    status: str = "",
    study: str = "",
    title: str = "CT CHEST",
    group: str = "",
    parent: str = "",
) -> str:
    """One ORC, OBR and ZDS; no ZDS if `study` is "-"."""
    accession = accession or f"A{number}"
    study = study or f"1.2.826.0.1.3680043.10.{number + 1}"
    status = status or {"CA": "CA", "DC": "CA"}.get(control, "SC")
    return (
        f"ORC|{control}|P{number}|F{number}|{group}|{status}|||{parent}\r"
        f"OBR|1|P{number}|F{number}|71250^{title}^L|||20260102030000|||||||||1234^ROE^RICHARD"
        f"||{accession}||||||CT|||||||^COUGH\r"
        + (f"ZDS|{study}^RIS^Application^DICOM\r" if study != "-" else "")
    )


def adt(event: str, number: int, mrn: str, name: str, prior: str = "") -> bytes:
    """An ADT message; with `prior` it is a merge."""
    structure = {"A40": "ADT_A39"}.get(event, "ADT_A01")
    return (
        f"MSH|^~\\&|ADT|HOSP|BRIDGE|RAD|20260102030405||ADT^{event}^{structure}|C{number}|P|2.5.1"
        "||||||UNICODE UTF-8\r"
        f"EVN||20260102030405\rPID|1||{mrn}^^^HOSP^MR||{name}||19700203|F\r"
        + (f"MRG|{prior}^^^HOSP^MR\r" if prior else "PV1|1|O\r")
    ).encode()
