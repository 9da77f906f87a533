"""
Import from Mirth Connect and Open Integration Engine: an export of channels becomes a proposal.

The proposal is an interface package, which `bridge interface import` and the console import. The
report lists what became of each part.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from bridge.admin.mirth.conversion import Conversion, ConversionOptions
from bridge.admin.mirth.findings import Finding, Outcome
from bridge.admin.packages.folder import FILE, MAPPINGS, Files, as_toml
from bridge.errors import BridgeError
from bridge.workers.pool import DocumentTooCostly, DocumentUnparsable, parse
from config.private_files import replace_all
from mappings.compiler import DEFINITIONS, read_folder
from parsers.limits import CHANNELS

REPORT: Final = "IMPORT.md"
_HEADINGS: Final = {
    Outcome.NOT_CONVERTED: "Not converted",
    Outcome.CHECK: "Converted: please check",
    Outcome.CONVERTED: "Converted",
}


_NO_OPTIONS: Final = ConversionOptions()


class NotConverted(BridgeError):
    """A document is no export of channels, or exceeds the limits."""


def convert_export(document: bytes, options: ConversionOptions = _NO_OPTIONS) -> Conversion:
    """
    Convert an export in a worker process.

    Raises NotConverted, WorkerBusy. Blocking.
    """
    given = {"sources": dict(read_folder(DEFINITIONS)), "options": asdict(options)}
    try:
        answer = parse("mirth", document, given, limits=CHANNELS)
    except (DocumentTooCostly, DocumentUnparsable):
        raise NotConverted("the export takes too long to read") from None
    if "fault" in answer:
        place = f"line {answer['line']}: " if answer["line"] else ""
        raise NotConverted(f"{place}the file {answer['fault']}")
    return Conversion.of_json(answer)


def package_files(conversion: Conversion) -> Files:
    """Return the files of the proposed interface package; none if nothing can be proposed."""
    if not conversion.connections:
        return {}
    tables = sorted(conversion.connections, key=lambda found: found[0], reverse=True)
    files = {f"{MAPPINGS}/{file}": text for file, text in conversion.definitions.items()}
    return {**files, FILE: "\n".join(as_toml(kind, table) for kind, table in tables)}


def write_package(conversion: Conversion, folder: Path) -> list[Path]:
    """Write the package and its report to a new or empty folder. Raises OSError."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    files: Files = {**package_files(conversion), REPORT: report(conversion)}
    data = {folder / file: text.encode() for file, text in sorted(files.items())}
    replace_all(data)
    return list(data)


def report(conversion: Conversion) -> str:
    """Return the report in Markdown."""
    lines = ["# Import from Mirth", ""]
    for channel in conversion.channels:
        version = f" ({channel.version})" if channel.version else ""
        proposed = [f"listener `{channel.listener}`"] if channel.listener else []
        proposed += [f"definition `{channel.definition}`"] if channel.definition else []
        proposed += [f"destination `{name}`" for name in channel.destinations]
        became = ", ".join(proposed) or "nothing"
        lines.append(f"- line {channel.line}: channel “{channel.name}”{version}: {became}")
    lines += ["", "All connections are disabled. No script was run.", ""]
    for outcome, heading in _HEADINGS.items():
        found = [finding for finding in conversion.findings if finding.outcome is outcome]
        if found:
            lines += [f"## {heading}", "", *_lines(found), ""]
    if conversion.issues:
        lines += ["## Warnings of the check", "", *(f"- {issue}" for issue in conversion.issues)]
    return "\n".join(lines).rstrip() + "\n"


def _lines(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"- line {finding.line}: {finding.what}: {finding.text}"
        if finding.excerpt:
            yield f"  - begins with: {finding.excerpt}"
        if finding.hint:
            yield f"  - {finding.hint}"
