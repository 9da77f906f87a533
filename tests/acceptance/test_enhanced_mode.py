"""MSH-15 and MSH-16: the acknowledgments for every pair of conditions, accepted or refused."""

import pytest

from tests.acceptance.hospital import Hospital
from tests.acceptance.orders import order
from tests.acceptance.wire import Sender, verdict

CONDITIONS = ("", "AL", "NE", "ER", "SU")
PAIRS = [(accept, application) for accept in CONDITIONS for application in CONDITIONS]


def wanted(condition: str, *, positive: bool) -> bool:
    """HL7 table 0155."""
    return condition in {"AL", "SU" if positive else "ER"}


def expected(accept: str, application: str, *, positive: bool) -> list[str]:
    """The codes by HL7 v2.5.1 §2.9.3; a refused message gets one acknowledgment at most."""
    if not accept and not application:
        return ["AA" if positive else "AE"]
    commit = ["CA" if positive else "CE"] if wanted(accept, positive=positive) else []
    result = ["AA" if positive else "AE"] if wanted(application, positive=positive) else []
    return commit + result if positive else (commit or result)


@pytest.mark.parametrize("listener", ["checked", "applied"])
def test_matrix(hospital: Hospital, listener: str) -> None:
    """The listener sends the requested acknowledgments in order, and no other."""
    base = {"checked": 6000, "applied": 6100}[listener]
    port = hospital.applied if listener == "applied" else hospital.house.mllp_port
    with Sender(port) as sender:
        for number, (accept, application) in enumerate(PAIRS, start=base):
            for control in ("NW", "QQ"):
                name = f"E{number}{control}"
                message = order(
                    number, control=control, modes=f"{accept}|{application}", msh10=name
                )
                mark = f"MARK{number}{control}"
                sender.post(message)
                codes = expected(accept, application, positive=control == "NW")
                answers = [verdict(sender.reply(20)) for _ in codes]
                sender.post(order(number, msh10=mark, accession=f"MARK{number}"))

                assert answers == [(code, name) for code in codes], (accept, application)
                assert verdict(sender.reply(20)) == ("AA", mark), (accept, application)


def test_retransmit_in_enhanced_mode(hospital: Hospital) -> None:
    """A retransmit gets both of its acknowledgments again, byte for byte."""
    message = order(6200, modes="AL|AL")
    with Sender(hospital.house.mllp_port) as sender:
        first = [sender.ask(message), sender.reply()]
        second = [sender.ask(message), sender.reply()]

    assert [verdict(each)[0] for each in first] == ["CA", "AA"]
    assert first == second
