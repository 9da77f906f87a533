"""The console converts a channel export, and its proposal can be imported."""

import base64

from tests.bridge.admin.mirth.exports import channel, destination, mapper, place, script
from tests.bridge.console.http.running_console import RunningConsole


def body(document: bytes, **more: str) -> dict[str, str]:
    return {"xml": base64.b64encode(document).decode(), **more}


def test_a_channel_is_converted(console: RunningConsole) -> None:
    """The answer has the package that the import takes, and what was not converted."""
    steps = [mapper("mrn", place("PID-2.1")), script("x();")]
    document = channel(steps=steps, destinations=[destination("To HIS")])
    answer = console.call(
        "chief", "POST", "/api/mirth/convert", body(document, name="north", site="SITE1")
    )
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["channels"] == [
        {
            "name": "RIS in",
            "version": "4.5.2",
            "line": 1,
            "listener": "north",
            "definition": "north",
            "destinations": ["to-his"],
        }
    ]
    left = [entry for entry in found["report"] if entry["outcome"] == "not converted"]
    assert [(entry["what"], entry["excerpt"]) for entry in left] == [
        ("JavaScript step “fix”", "x();")
    ]
    preview = console.call("chief", "POST", "/api/interfaces/look", {"zip": found["package"]})
    assert preview.status_code == 200, preview.text
    assert preview.json()["channels"] == ["north", "to-his"]
    assert 'site = "SITE1"' in found["files"]["interface.toml"]


def test_other_files(console: RunningConsole) -> None:
    """A file that is no export is refused with its line; so is a body that is not base64."""
    answer = console.call("chief", "POST", "/api/mirth/convert", body(b"<a>\n<!b></a>"))
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("line 2: the file is not XML")
    refused = console.call("chief", "POST", "/api/mirth/convert", {"xml": "é"})
    assert refused.status_code == 400
