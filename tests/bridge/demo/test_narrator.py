"""The output of the demo is readable in a narrow terminal, in a pipe and without Unicode."""

from io import BytesIO, StringIO, TextIOWrapper

from bridge.demo.narration import Narrator

ORU = (
    "MSH|^~\\&|B|S|R|N|20260302||ORU^R01^ORU_R01|1|P|2.5.1||||||UNICODE UTF-8\r"
    f"OBX|1|TX|1^R^L||{'王' * 90}||||||F\rOBX|2|TX|1^R^L||[bold]{'x' * 90}||||||F\r"
)


def test_messages_are_wrapped() -> None:
    """Long segments continue indented, markup stays text, wide characters count twice."""
    out = StringIO()
    Narrator(out).message(ORU.encode())
    lines = out.getvalue().splitlines()

    assert [line.strip()[:3] for line in lines if not line.startswith(" " * 10)] == [
        "MSH", "OBX", "OBX",
    ]  # fmt: skip
    assert "".join(line[7:].strip() for line in lines) == ORU.replace("\r", "")
    assert max(len(line) + line.count("王") for line in lines) <= 100


def test_an_ascii_terminal() -> None:
    """Characters that the terminal cannot print are replaced."""
    raw = BytesIO()
    out = TextIOWrapper(raw, encoding="ascii")
    Narrator(out).done("Müller: released", "F  2 ORU")
    out.flush()

    assert b"M?ller: released" in raw.getvalue()


def test_long_steps_are_wrapped_beside_their_note() -> None:
    """The note stays complete on the first line."""
    out = StringIO()
    Narrator(out, clock=lambda: 0.0).done("word " * 40, "AA  3 ms")
    first, *rest = out.getvalue().splitlines()

    assert first.endswith("AA  3 ms")
    assert " ".join([first.removesuffix("AA  3 ms"), *rest]).count("word") == 40


def test_a_slow_machine() -> None:
    """The time of a step fits into its column after a hundred seconds."""
    out, times = StringIO(), iter([0.0, 99.94, 99.96, 119.3, 4000.0])
    narrator = Narrator(out, clock=lambda: next(times))
    for _ in range(4):
        narrator.done("a step")
    found = [line.partition("✓")[0].strip() for line in out.getvalue().splitlines()]

    assert found == ["99.9 s", "100 s", "119 s", "4000 s"]
