"""Builders for order and ADT messages."""

from itertools import count

IDS = count(1)


def order_message(
    *groups: str, mrn: str = "M1", sent: int | None = None, name: str = "TESTER^TILDA"
) -> bytes:
    """Build an order message of these groups. `sent` is a minute of the day, or None."""
    at = "" if sent is None else f"20261121{8 + sent // 60:02d}{sent % 60:02d}"
    head = (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|{at}||ORM^O01|S{next(IDS)}|P|2.3.1\r"
        f"PID|1||{mrn}||{name}||19700101|F\r"
    )
    return (head + "".join(groups)).encode()


def order_group(
    control: str,
    placer: str = "",
    filler: str = "",
    *,
    accession: str = "",
    status: str = "",
    parent: str = "",
    what: str = "CT Head",
) -> str:
    """Build one group. Without `accession` OBR-18 is empty, without `what` there is no OBR."""
    orc = f"ORC|{control}|{placer}|{filler}||{status}|||{parent}\r"
    if not what:
        return orc
    return f"{orc}OBR|1|{placer}|{filler}|X^{what}^L||||||||||||||{accession}||||||CT\r"


def adt(event: str, mrn: str, *prior: str, name: str = "TESTER^TILDA") -> bytes:
    """Build an ADT message about one patient, with one MRG for each prior number."""
    head = (
        f"MSH|^~\\&|RIS|MAIN|BRIDGE|RAD|20261121120000||ADT^{event}|S{next(IDS)}|P|2.5.1\r"
        f"EVN|{event}|20261121\rPID|1||{mrn}||{name}||19700101|F\r"
    )
    return (head + "".join(f"MRG|{item}\r" for item in prior)).encode()
