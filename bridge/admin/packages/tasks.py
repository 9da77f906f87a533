"""
Tasks of worker processes: read interface packages and definitions.

A worker process reads each document first, within its limits of time and memory. The service itself
reads only documents that passed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.toml_text import SettingsError, parse_toml
from mappings.language import definition_files
from mappings.language.code_tables import read_table, table_names
from mappings.language.diagnostics import Diagnostics
from parsers.limits import DocumentRefused
from parsers.readers import read_zip

_MAPPINGS = "mappings"


def unpack_package(document: bytes, given: Mapping[str, Any]) -> dict[str, Any]:
    """Unpack a ZIP and read each file; return the texts as `files`, or a `fault`."""
    try:
        files = read_zip(document)
        for name, text in files.items():
            if name.endswith(".toml"):
                parse_toml(text, Path(name))
    except DocumentRefused as refused:
        return {"fault": refused.reason}
    except SettingsError as error:
        return {"fault": str(error)}
    _read_definitions({name.partition(f"{_MAPPINGS}/")[2]: text for name, text in files.items()})
    return {"files": files}


def read_definitions(document: bytes, given: Mapping[str, Any]) -> None:
    """Read the YAML files and code tables in a JSON object of file names and texts."""
    _read_definitions(json.loads(document))


def _read_definitions(sources: Mapping[str, str]) -> None:
    """Read all files; a later check reports their mistakes."""
    for name, text in sources.items():
        if name.endswith(".yaml"):
            definition_files.parse_yaml(text, name, Diagnostics())
    for table in table_names(sources):
        read_table(sources, table, Diagnostics())


TASKS = {"package": unpack_package, "definitions": read_definitions}
