"""
The compiler of definitions: checks all of a definition, and reports each error with its location.

This is the only module of the package that reads files, and it reads only definitions. A compiled
mapping is immutable and does not refer to files.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from mappings.inbound import order_mapping, outside_mapping, patient_mapping
from mappings.inbound.definition import InboundMapping, InboundPlan, compile_acceptance
from mappings.inbound.order_mapping import compile_orders
from mappings.inbound.outside_mapping import compile_outside, require_reports
from mappings.inbound.patient_mapping import compile_patients
from mappings.language.code_tables import FOLDER, read_table, table_names
from mappings.language.definition_files import load_tree
from mappings.language.diagnostics import Diagnostics, Issue, MappingErrors, Sources, YamlNode
from mappings.language.rules import CompilationContext
from mappings.outbound.definition import KEYS as OUTBOUND_KEYS
from mappings.outbound.definition import OutboundMapping, compile_outbound
from mappings.outbound.worklist_item import KEYS as WORKLIST_KEYS
from mappings.outbound.worklist_item import WorklistMapping, compile_worklist

DEFINITIONS = Path(__file__).parent / "definitions"
"""The folder of the definitions that are shipped; `bridge init` copies them."""

Compiled = InboundMapping | OutboundMapping | WorklistMapping

KINDS = {
    "orders": ("accept", *order_mapping.KEYS),
    "patients": ("accept", *patient_mapping.KEYS),
    "outside-reports": ("accept", *outside_mapping.KEYS),
    "results": OUTBOUND_KEYS,
    "status": OUTBOUND_KEYS,
    "worklist": WORKLIST_KEYS,
}
INBOUND_KINDS = ("orders", "patients", "outside-reports")
COMMON_KEYS = ("kind", "about", "include")


def load(folder: Path, name: str) -> Compiled:
    """Compile a definition of a folder. Raises MappingErrors, OSError."""
    return compile_sources(read_folder(folder), name)


def compile_sources(sources: Sources, name: str) -> Compiled:
    """Compile a definition from texts. Raises MappingErrors."""
    diagnostics = Diagnostics()
    compiled = _compile(sources, name, diagnostics)
    if compiled is None or diagnostics.failed:
        raise MappingErrors(diagnostics.issues)
    return compiled


def compile_with_files(sources: Sources, name: str) -> tuple[Compiled, Sources]:
    """
    Compile a definition, and return it with the texts of the files that it uses.

    Raises MappingErrors.
    """
    definition = compile_sources(sources, name)
    return definition, {file: sources[file] for file in definition.files}


def check(folder: Path, name: str | None = None) -> list[Issue]:
    """Return the issues of one definition, or of all definitions and code tables of a folder."""
    sources = read_folder(folder)
    return check_sources(
        sources, [name] if name else definition_names(sources), tables=name is None
    )


def check_sources(sources: Sources, chosen: Sequence[str], *, tables: bool) -> list[Issue]:
    """Return the issues of definitions; with `tables`, also those of all code tables."""
    diagnostics = Diagnostics()
    for name in chosen:
        _compile(sources, name, diagnostics)
    for table in table_names(sources) if tables else ():
        read_table(sources, table, diagnostics)
    return diagnostics.issues


def read_folder(folder: Path) -> Sources:
    """
    Read the files that definitions may refer to: YAML files, code tables and hooks.

    A Python file that is a link out of the folder is left out: it could make any installed module a
    hook.
    """
    real = folder.resolve()
    files = [
        *folder.glob("*.yaml"),
        *(path for path in folder.glob("*.py") if path.resolve().is_relative_to(real)),
        *folder.glob(f"{FOLDER}*.csv"),
        *folder.glob("include/*.yaml"),
    ]
    return {path.relative_to(folder).as_posix(): _text(path) for path in sorted(files)}


def _text(path: Path) -> str:
    """Decode a file as UTF-8. Other bytes are replaced, and reported where the text is used."""
    return path.read_bytes().decode("utf-8-sig", errors="replace")


def definition_names(sources: Sources) -> list[str]:
    """Return the names of a folder's definitions: its YAML files without those of subfolders."""
    return sorted(
        file.removesuffix(".yaml") for file in sources if file.endswith(".yaml") and "/" not in file
    )


def _compile(sources: Sources, name: str, diagnostics: Diagnostics) -> Compiled | None:
    file = f"{name}.yaml"
    if file not in sources:
        place = YamlNode(None, file, 1, 1)
        diagnostics.unknown(place, "mapping", name, definition_names(sources))
        return None
    root = load_tree(sources, file, diagnostics)
    if root is None:
        return None
    kind_node = root.get("kind")
    if kind_node is None:
        if not diagnostics.failed:  # otherwise an include failed, which may contain it
            diagnostics.error(root, "kind", f"kind is missing: one of {', '.join(KINDS)}")
        return None
    kind = diagnostics.read_choice(kind_node, "kind", KINDS)
    if kind is None:
        return None
    entries = diagnostics.read_mapping(root, (*COMMON_KEYS, *KINDS[kind]))
    context = CompilationContext(sources, diagnostics)
    definition = _compile_kind(kind, name, root, entries, context)
    files = tuple(sorted({file, *context.files, *diagnostics.included}))
    definition = replace(definition, version=_version(sources, files), files=files)
    if isinstance(definition, InboundMapping):
        return replace(definition, sources={file: sources[file] for file in files})
    return definition


def _compile_kind(
    kind: str, name: str, root: YamlNode, entries: dict[str, YamlNode], context: CompilationContext
) -> Compiled:
    if kind in ("results", "status"):
        return compile_outbound(name, root, entries, context)
    if kind == "worklist":
        return compile_worklist(name, root, entries, context)
    acceptance = compile_acceptance(entries.get("accept"), root, context.diagnostics)
    plan: InboundPlan
    if kind == "orders":
        plan = compile_orders(root, entries, context)
    elif kind == "patients":
        plan = compile_patients(root, entries, context)
    else:
        plan = compile_outside(root, entries, context)
        require_reports(entries.get("accept"), context.diagnostics)
        acceptance = replace(acceptance, listed_only=True)
    return InboundMapping(name, "", acceptance, plan, needs_thread=context.diagnostics.needs_thread)


def _version(sources: Sources, files: Sequence[str]) -> str:
    digest = sha256()
    for name in files:
        digest.update(f"{name}\0{sources[name]}\0".encode())
    return digest.hexdigest()[:16]
