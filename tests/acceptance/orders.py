"""Orders as a hospital sends them, invented and numbered."""


def order(
    number: int,
    *,
    mrn: str = "",
    accession: str = "",
    control: str = "NW",
    name: str = "DOE^JANE",
    msh10: str = "",
    study: str = "",
    extra: str = "",
) -> bytes:
    """An ORM^O01 2.5.1 with one imaging group."""
    mrn, accession = mrn or f"M{number}", accession or f"A{number}"
    study = study or f"1.2.826.0.1.3680043.10.{number + 1}"
    status = {"NW": "SC", "XO": "SC", "CA": "CA", "DC": "CA"}.get(control, "SC")
    msh10 = msh10 or f"C{number}"
    return (
        f"MSH|^~\\&|RIS|HOSP|BRIDGE|RAD|20260102030405||ORM^O01^ORM_O01|{msh10}|P|2.5.1"
        "||||||UNICODE UTF-8\r"
        f"PID|1||{mrn}^^^HOSP^MR||{name}||19700203|F\r"
        "PV1|1|O|CT^^^HOSP||||1234^ROE^RICHARD\r"
        f"ORC|{control}|P{number}|F{number}||{status}\r"
        f"OBR|1|P{number}|F{number}|71250^CT CHEST^L|||20260102030000|||||||||1234^ROE^RICHARD"
        f"||{accession}||||||CT|||||||^COUGH\r"
        f"ZDS|{study}^RIS^Application^DICOM\r{extra}"
    ).encode()
