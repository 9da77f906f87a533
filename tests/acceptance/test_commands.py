"""Exit status and output of the commands."""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.house import House, bridge
from tests.acceptance.orders import order
from tests.acceptance.wire import FS_CR, VT, Sender, accept, ack, sink, verdict
from tests.eventually import eventually


def test_check_reads_mappings_despite_wrong_settings(house: House) -> None:
    """`bridge check` reports mistakes in the settings and in the definitions together."""
    house.make()
    (house.home / "bridge.toml").write_text("[http]\ncolour = 1\n", "utf-8")
    (house.home / "mappings" / "mine.yaml").write_text("kind: orders\n", "utf-8")
    output = house.bridge("check", expect=1)

    assert "http.colour" in output
    assert "mine.yaml:1:" in output


def test_check_names_mistakes_of_mappings(house: House) -> None:
    """`bridge check` names file and line of a wrong definition, and `serve` does not start."""
    house.make()
    orders = house.home / "mappings" / "orders.yaml"
    orders.write_text(orders.read_text("utf-8").replace("from: PID-5", "from: PID_5"), "utf-8")
    line = next(
        number
        for number, text in enumerate(orders.read_text("utf-8").splitlines(), start=1)
        if "PID_5" in text
    )

    assert f"orders.yaml:{line}:" in house.bridge("check", expect=1)
    assert f"orders.yaml:{line}:" in house.bridge("mapping", "check", expect=1)
    assert house.bridge("serve", expect=1)


def test_the_log_and_the_command_name_the_same_release(running: House) -> None:
    """The line of a ready service has the version and the build that `bridge --version` prints."""
    (line,) = eventually(
        lambda: [line for line in running.log().splitlines() if re.search(r"\bready\b", line)]
    )
    shown = dict(re.findall(r"(version|build)=(\S+)", line))
    assert bridge("--version") == f"Report Bridge {shown['version']} (build {shown['build']})\n"


def test_send(running: House, tmp_path: Path) -> None:
    """`bridge send` prints each ACK and exits with 1 if one is negative."""
    good, bad = tmp_path / "good.hl7", tmp_path / "bad.hl7"
    good.write_bytes(order(5001))
    bad.write_bytes(order(5002, control="QQ"))
    where = f"127.0.0.1:{running.mllp_port}"

    assert "MSA|AA|C5001" in bridge("send", where, str(good))
    assert "MSA|AE|C5002" in bridge("send", where, str(bad), str(good), expect=1)
    assert bridge("send", "127.0.0.1:1", str(good), expect=1)


def test_send_in_enhanced_mode(running: House, tmp_path: Path) -> None:
    """`bridge send` waits for the acknowledgments that MSH-15 and MSH-16 request."""
    modes_of = {5003: "AL|AL", 5004: "AL|NE", 5006: "NE|NE", 5007: "NE|AL"}
    file = tmp_path / "orders.hl7"
    file.write_bytes(b"".join(order(number, modes=modes) for number, modes in modes_of.items()))
    output = bridge("send", f"127.0.0.1:{running.mllp_port}", str(file))
    codes = [line.split("|")[1:3] for line in output.splitlines() if line.startswith("MSA")]
    assert codes == [["CA", "C5003"], ["AA", "C5003"], ["CA", "C5004"], ["AA", "C5007"]]


def test_mapping_try(running: House, tmp_path: Path) -> None:
    """`mapping try` prints the events of a message and exits with 1 if it is refused."""
    good, bad = tmp_path / "good.hl7", tmp_path / "bad.hl7"
    good.write_bytes(order(5003))
    bad.write_bytes(order(5004, control="QQ"))
    tried = json.loads(running.bridge("mapping", "try", "orders", str(good), "--json"))

    assert tried[0]["accepted"]
    assert tried[0]["events"][0]["accession"] == "A5003"
    assert "ORC-1" in running.bridge("mapping", "try", "orders", str(bad), expect=1)


def test_mapping_try_validates(house: House, tmp_path: Path) -> None:
    """`mapping try --validate` names each finding and exits with 1."""
    house.make()
    file = tmp_path / "order.hl7"
    file.write_bytes(order(5006, name=""))
    tried = ("mapping", "try", "orders", str(file))
    out = house.bridge(*tried, "--validate", "--json", expect=1)
    found = json.loads(out[: out.rindex("]") + 1])[0]["validation"]
    assert ("101", "PID-5") in [(row["code"], row["place"]) for row in found]
    assert "structure error" in house.bridge(*tried, "--validate", expect=1)
    house.bridge(*tried)


def test_a_kept_report_is_listed(running: House) -> None:
    """`messages list` marks a cancellation that kept a report with text."""
    running.send(order(5017))
    running.draft("M5017", "A5017", "Dictated already.")
    running.send(order(5017, control="CA", msh10="C5017-CA"))
    assert "report_kept" in running.bridge("messages", "list", "--limit", "5")


def test_replay(running: House) -> None:
    """`messages list` and `show` print a received message, and `replay` applies it again."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(order(5005)))[0] == "AA"
    running.settle()
    newest = json.loads(running.bridge("messages", "list", "--limit", "1", "--json"))[0]
    shown = json.loads(running.bridge("messages", "show", str(newest["id"]), "--json"))
    running.bridge("messages", "replay", str(newest["id"]))
    running.settle()

    assert newest["state"] == "done"
    assert "A5005" in str(shown)
    assert running.group("A5005") == ["A5005"]


def test_reconcile(running: House) -> None:
    """`exceptions reconcile` compares at once and counts the orders that only one side has."""
    with Sender(running.mllp_port) as sender:
        assert verdict(sender.ask(order(5095)))[0] == "AA"
    running.settle()
    named = {"SiteID": "SITE1", "PatientMRN": "M5096", "Accession": "A5096"}
    body = {"clinicalInfo": named, "reportingApp": {}, "response": {"type": "link"}}
    ordered = {"lazyLaunch": True, "registerOrder": True}
    running.post("/api/report/launch/clinical", body | ordered)
    comparison = json.loads(running.bridge("exceptions", "reconcile", "--json"))["last"]

    assert comparison["orders"] >= 1
    assert comparison["ended_at"] is not None
    assert comparison["differing"]["not_ordered SITE1"] >= 1


@pytest.mark.slow
def test_retry_and_skip(house: House) -> None:
    """An operator retries or skips a parked result. It holds up its own report only."""
    refuses = [True]

    def answer(message: bytes, attempts: int) -> bytes:
        if refuses[0] and b"|A1|" in message:
            return VT + ack(message, b"AR") + FS_CR
        return accept(message, attempts)

    with sink(answer) as ris:
        house.destination("ris", ris.port, replies={"AR": "park"})
        house.make()
        house.start()
        for number in (1, 2):
            house.draft(f"M{number}", f"A{number}", f"Text {number}.")
            house.sign(f"M{number}", f"A{number}")
        ris.about("|A2|")
        parked = wait_for(house, "parked")
        refuses[0] = False
        house.bridge("deliveries", "retry", str(parked["id"]))
        assert wait_for(house, "done", parked["id"])
        assert len(set(ris.about("|A1|", 2))) == 1, "the same bytes"

        house.bridge("deliveries", "skip", str(parked["id"]), expect=1)


def wait_for(house: House, state: str, delivery: int = 0) -> dict[str, int]:
    def found() -> list[dict[str, int]]:
        rows = json.loads(house.bridge("deliveries", "list", "--state", state, "--json"))
        return [row for row in rows if delivery in {0, row["id"]}]

    return eventually(found)[0]


def test_orders_show(running: House) -> None:
    """An order is found by each of its numbers, in any letter case, with report and messages."""
    running.send(order(5100, accession="Ab-5100", mrn="Mr5100"))
    running.draft("Mr5100", "Ab-5100", "All well.")
    (shown,) = json.loads(running.bridge("orders", "show", "Ab-5100", "--json"))["orders"]
    assert shown["report"]["status"] == "Draft"
    assert shown["report"]["reader"] == "ada@example.org"

    def wait_for(number: str, text: str) -> None:
        def is_shown() -> bool:
            return text in running.bridge("orders", "show", number, expect=None)

        assert eventually(is_shown)

    for number in ("AB-5100", " ab-5100 ", "P5100", "f5100", "MR5100", shown["report"]["id"]):
        wait_for(number, "order Ab-5100 of patient Mr5100, site SITE1")
    wait_for("c5100", "AA, done")
    assert "begin with it: Ab-5100" in running.bridge("orders", "show", "Ab-5", expect=1)


def test_a_refused_message_is_found_by_its_accession(running: House) -> None:
    """The accession of a refused message finds it, in any letter case."""
    with Sender(running.mllp_port) as sender:
        sender.post(order(5101, accession="Rf-5101", control="QQ"))
        assert verdict(sender.reply() or b"")[0] == "AE"

    def found() -> str | None:
        shown = running.bridge("orders", "show", "rf-5101", expect=None)
        return shown if "AE, refused" in shown else None

    assert eventually(found)
