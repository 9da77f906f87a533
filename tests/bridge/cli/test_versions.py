"""`bridge mapping activate|history|rollback|diff|try` work without a service."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result
from typing_extensions import override

from bridge.admin.definitions import drafts, trials
from bridge.admin.definitions.activation import activate_at_start
from bridge.admin.installation.data_directory import create_data_directory
from bridge.cli.application import application
from bridge.intake.receive.acknowledgments import AcknowledgmentBuilder, ControlIds
from bridge.intake.receive.listener_policy import make_listeners
from bridge.intake.receive.verdict import FrameEvaluator
from bridge.queue import log_tables
from bridge.store.databases import bridge_database
from bridge.store.records.mapping_versions import MappingDraft
from config import load
from mllp.framing import Frame
from tests.bridge.cli.home import Home

ORDER = (
    "MSH|^~\\&|RISA|NORTH|BRIDGE|SITE1|20260302080500||ORM^O01|C1|P|2.5.1\r"
    "PID|1||M1^^^NORTH^MR||Doe^Jane||19800102|F\r"
    "ORC|NW|P1\rOBR|1|P1||X^Test|||||||||||||||A1\r"
)
NOTES = "\ntags: {Notes: {const: seen}}\n"


class MappingHome(Home):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.mappings = folder / "mappings"
        create_data_directory(folder)
        order = folder / "order.hl7"
        order.write_text(ORDER)
        self.order = str(order)

    @override
    def run(self, *arguments: str) -> Result:
        """Run `bridge mapping …`."""
        return super().run("mapping", *arguments)

    def write(self, text: str) -> None:
        shipped = self.mappings / "shipped.yaml"
        if not shipped.exists():
            shipped.write_text((self.mappings / "orders.yaml").read_text())
        (self.mappings / "orders.yaml").write_text(f"include: shipped.yaml\n{text}")

    def history(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.ok("history", "orders", "--json"))
        return found

    def start(self) -> list[str]:
        """Load the files as the service does at its start."""
        with bridge_database(self.folder) as database:
            return activate_at_start(load(self.folder), database, 1_000)


@pytest.fixture
def home(tmp_path: Path) -> MappingHome:
    return MappingHome(tmp_path / "home")


def test_history_of_an_activation(home: MappingHome) -> None:
    """The history has the activated version with author, time and reason."""
    home.ok("activate", "orders", "--reason", "go live", "--by", "ann")
    (entry,) = home.history()
    assert (entry["actor"], entry["reason"], entry["origin"]) == ("ann", "go live", "activate")
    assert entry["in_force"] is True


def test_the_same_version_is_activated_once(home: MappingHome) -> None:
    """CI may activate after each push: without a change the history gets no entry."""
    home.ok("activate", "orders")
    home.ok("activate", "orders")
    assert len(home.history()) == 1


def test_a_bad_mapping_is_never_activated(home: MappingHome) -> None:
    """A mistake in one definition changes no active version."""
    home.ok("activate")
    home.write("tags: {PatientMRN: PIX-3}")
    result = home.run("activate", "patients", "orders")
    assert result.exit_code != 0
    assert len(home.history()) == 1


def test_rollback_by_one_step(home: MappingHome) -> None:
    """With three versions two rollbacks reach the first. A third one is refused."""
    home.ok("activate", "orders")
    home.write(NOTES)
    home.ok("activate", "orders")
    home.write("tags: {Notes: {const: other}}")
    home.ok("activate", "orders")
    third, second, first = (entry["version"] for entry in home.history())
    home.ok("rollback", "orders", "--reason", "too bold")
    assert home.history()[0]["version"] == second
    home.ok("rollback", "orders")
    assert home.history()[0]["version"] == first
    refused = home.run("rollback", "orders")
    assert refused.exit_code != 0
    for version in (first, second, third):
        assert str(version) in str(refused.exception)
    home.ok("rollback", "orders", "--to", str(third)[:8])
    assert home.history()[0]["version"] == third


def test_rollback_to_the_files_of_the_start(home: MappingHome) -> None:
    """The files of the first start are a version, and stay active over later files."""
    home.start()
    home.write(NOTES)
    home.ok("activate", "orders")
    home.ok("rollback", "orders")
    assert [entry["origin"] for entry in home.history()] == ["rollback", "activate", "start"]
    home.start()
    assert len(home.history()) == 3


def test_changed_files_become_active_at_a_start(home: MappingHome) -> None:
    home.start()
    home.write(NOTES)
    home.start()
    assert [entry["origin"] for entry in home.history()] == ["start", "start"]


def test_files_with_mistakes_at_a_start(home: MappingHome) -> None:
    """A start names a file with mistakes, and keeps the active version."""
    home.start()
    home.write("tags: {PatientMRN: PIX-3}")
    assert home.start() == ["orders"]
    assert len(home.history()) == 1


def test_diff_prints_changed_fields(home: MappingHome) -> None:
    """Diff prints changed fields, before and after, and exits with 1 if there are any."""
    home.ok("activate", "orders")
    assert home.run("diff", "orders", home.order).exit_code == 0
    home.write(NOTES)
    result = home.run("diff", "orders", home.order, "--json")
    assert result.exit_code == 1
    compared = json.loads(result.stdout)
    (message,) = compared["messages"]
    assert (compared["compared"], compared["differing"]) == (1, 1)
    (difference,) = message["differences"]
    assert difference["field"].endswith("clinical_info.Notes")
    assert (difference["before"], difference["after"]) == ("", "seen")


def test_try_takes_a_version_and_a_folder(home: MappingHome) -> None:
    """`try` maps the messages of a folder with the active version, and skips other files."""
    home.ok("activate", "orders")
    home.write(NOTES)
    trials = json.loads(home.ok("try", "orders", str(home.folder), "--version", "active", "--json"))
    assert "Notes" not in trials[0]["events"][0]["clinical_info"]
    assert "PID-3" in trials[0]["used"]
    trials = json.loads(home.ok("try", "orders", home.order, "--json"))
    assert trials[0]["events"][0]["clinical_info"]["Notes"] == "seen"


def test_try_and_diff_of_results(home: MappingHome) -> None:
    """`try` and `diff` of results use a specimen report for each order."""
    home.ok("activate", "results")
    trials = json.loads(home.ok("try", "results", home.order, "--json"))
    assert "A specimen: no report." in trials[0]["hl7"][0]
    assert home.run("diff", "results", home.order).exit_code == 0
    file = home.mappings / "results.yaml"
    file.write_text(file.read_text().replace("final: {result: F,", "final: {result: C,"))
    result = home.run("diff", "results", home.order, "--json")
    (message,) = json.loads(result.stdout)["messages"]
    assert message["differences"] == [{"field": "OBR-25", "before": "F", "after": "C"}]


def test_try_files_as_a_listener_would(home: MappingHome) -> None:
    """The site, time zone and charset of the listener apply where a message has none."""
    text = home.folder / "bridge.toml"
    settings = text.read_text().replace('time_zone = "UTC"', 'time_zone = "Asia/Tokyo"', 1)
    text.write_text(settings.replace('charset = "utf-8"', 'charset = "iso8859-15"', 1))
    name, when = "M\u20acier".encode("iso8859-15"), b"|||20260301233000+0000|"
    order = ORDER.encode().replace(b"Doe^Jane", name).replace(b"X^Test||||", b"X^Test" + when)
    Path(home.order).write_bytes(order)

    (trial,) = json.loads(
        home.ok("try", "orders", home.order, "--listener", "ris-orders", "--json")
    )

    info = trial["events"][0]["clinical_info"]
    assert info["PatientName"] == "M\u20acier"
    assert (info["StudyDate"], info["StudyTime"]) == ("20260302", "083000")
    unknown = home.run("try", "orders", home.order, "--listener", "nobody")
    assert (unknown.exit_code, "ris-orders" in unknown.output) == (2, True)


def test_results_of_a_file_are_read_as_its_listener_would(home: MappingHome) -> None:
    """`--listener` names the definitions that read the order, not only site and charset."""
    other = "kind: orders\ninclude: orders.yaml\naccept: {messages: [OMG^O19]}\n"
    (home.mappings / "own.yaml").write_text(other)
    text = home.folder / "bridge.toml"
    assert '"orders", "patients"]' in text.read_text()
    text.write_text(text.read_text().replace('"orders", "patients"]', '"own"]', 1))
    home.ok("activate", "own")

    refused = home.run("try", "results", home.order, "--listener", "ris-orders")

    assert (refused.exit_code, "no definition reads its orders" in refused.output) == (1, True)
    assert result_of(home, home.order, "--orders", "orders")


def test_a_definition_of_the_console_needs_no_flag(home: MappingHome) -> None:
    """`check`, `try` and `diff` find drafts and active versions that have no file."""
    settings, text = load(home.folder), "kind: orders\ninclude: orders.yaml\n"
    with bridge_database(home.folder) as database:
        draft = MappingDraft("web", "ann@x", {"web.yaml": text}, "", 0, "", 1)
        drafts.save(settings, database, draft)
    assert home.ok("check", "web").strip() == "ok"
    (trial,) = json.loads(home.ok("try", "web", home.order, "--json"))
    assert trial["events"]
    home.ok("activate", "web", "--draft", "-m", "first")
    assert json.loads(home.ok("try", "web", home.order, "--json")) == [trial]
    assert home.run("diff", "web", home.order).exit_code == 0
    with bridge_database(home.folder) as database:
        wrong = {"web.yaml": text + "tags: {Nothing: {from: QQQ}}\n"}
        drafts.save(settings, database, MappingDraft("web", "ann@x", wrong, "", 0, "", 2))
    assert "web.yaml:3" in home.run("check").output


def result_of(home: MappingHome, *arguments: str) -> str:
    """Return the specimen result that `mapping try results` prints."""
    (trial,) = json.loads(home.ok("try", "results", *arguments, "--json"))
    return str(trial["hl7"][0])


OWN_ACCESSION = "\ntags: {Accession: {from: OBR-20, required: true}}\n"
BOTH = ORDER.replace("||A1\r", "|A18||OWN-20\r")


def store(home: MappingHome, *messages: str) -> None:
    listening = make_listeners(load(home.folder))["ris-orders"]
    evaluator = FrameEvaluator(listening, print)
    builder = AcknowledgmentBuilder(listening, ControlIds())
    moment = datetime.now(UTC)
    arrivals = [
        builder.arrival(evaluator.evaluate(Frame(message), moment), message, moment)
        for message in map(str.encode, messages)
    ]
    with bridge_database(home.folder) as database:
        log_tables.store(database, arrivals)


def test_large_messages_are_compared_until_a_limit(
    home: MappingHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand messages of 16 MiB would not fit into memory: the newest are read, to a limit."""
    home.ok("activate", "orders")
    store(home, *(ORDER.replace("|C1|", f"|C{number}|") for number in range(5)))
    assert len(json.loads(home.ok("try", "orders", "--last", "9", "--json"))) == 5
    monkeypatch.setattr(trials, "MAX_SAMPLE_BYTES", 2 * len(ORDER))
    assert len(json.loads(home.ok("try", "orders", "--last", "9", "--json"))) == 2


def test_results_are_tried_on_orders_as_they_were_stored(home: MappingHome) -> None:
    home.write(OWN_ACCESSION)
    home.ok("activate", "orders")
    store(home, BOTH)
    home.write("")
    home.ok("activate", "orders")
    assert "|P1|OWN-20|" in result_of(home)
    assert "|P1|OWN-20|" not in result_of(home, "--orders", "orders")


def test_results_are_tried_on_files_as_a_listener_reads_them(home: MappingHome) -> None:
    """A file is read with the listener's definition, not the one named orders."""
    (home.mappings / "own.yaml").write_text(f"include: orders.yaml\n{OWN_ACCESSION}")
    file = home.folder / "bridge.toml"
    file.write_text(file.read_text().replace('["orders", "patients"]', '["own", "patients"]'))
    Path(home.order).write_text(BOTH)
    assert "|P1|OWN-20|" in result_of(home, home.order)
    assert "|P1|OWN-20|" not in result_of(home, home.order, "--orders", "orders")
    assert home.run("try", "results", home.order, "--orders", "results").exit_code != 0


def test_a_check_of_no_folder_fails(home: MappingHome) -> None:
    """A check of a missing data directory fails."""
    command = ["mapping", "check", "--home", str(home.folder / "nothing")]
    result = CliRunner().invoke(application, command)
    assert result.exit_code == 2
    assert "there is no folder" in result.output
    assert home.run("check").exit_code == 0
