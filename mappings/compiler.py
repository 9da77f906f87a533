"""
Compile the definitions of a folder, and check them: every mistake at once, with its place.

The one file of this package that opens files, and only the definitions'. What is compiled
is immutable and refers to no file any more.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from mappings.inbound import order_mapping, patient_mapping
from mappings.inbound.acceptance import compile_acceptance
from mappings.inbound.definition import InboundMapping
from mappings.inbound.order_mapping import OrderRules, compile_orders
from mappings.inbound.patient_mapping import PatientRules, compile_patients
from mappings.language.code_tables import FOLDER, names, read_table
from mappings.language.context import CompilationContext
from mappings.language.definition_files import load_tree
from mappings.language.diagnostics import Diagnostics, Issue, Sources, YamlNode
from mappings.language.errors import MappingErrors
from mappings.outbound.definition import KEYS as OUTBOUND_KEYS
from mappings.outbound.definition import OutboundMapping, compile_outbound

DEFINITIONS = Path(__file__).parent / "definitions"
"""The definitions that ship; `bridge init` copies them."""

Compiled = InboundMapping | OutboundMapping

KINDS = {
    "orders": ("accept", *order_mapping.KEYS),
    "patients": ("accept", *patient_mapping.KEYS),
    "results": OUTBOUND_KEYS,
    "status": OUTBOUND_KEYS,
}
GENERAL = ("kind", "about", "include")


def load(folder: Path, name: str) -> Compiled:
    """Compile the definition `name` of a folder. Raises MappingErrors, OSError."""
    return compile_sources(read_folder(folder), name)


def compile_sources(sources: Sources, name: str) -> Compiled:
    """Compile a definition from texts. Raises MappingErrors."""
    notebook = Diagnostics()
    compiled = _compile(sources, name, notebook)
    if compiled is None or notebook.failed:
        raise MappingErrors(notebook.issues)
    return compiled


def compile_with_files(sources: Sources, name: str) -> tuple[Compiled, Sources]:
    """Compile a definition; give it with no more than the files it needs. Raises MappingErrors."""
    made = compile_sources(sources, name)
    return made, {file: sources[file] for file in made.files}


def check(folder: Path, name: str | None = None) -> list[Issue]:
    """Name every mistake of one definition, or of all of a folder with its code tables."""
    sources = read_folder(folder)
    return check_sources(
        sources, [name] if name else definition_names(sources), tables=name is None
    )


def check_sources(sources: Sources, chosen: Sequence[str], *, tables: bool) -> list[Issue]:
    """Name every mistake of these definitions; with `tables`, of all code tables too."""
    notebook = Diagnostics()
    for name in chosen:
        _compile(sources, name, notebook)
    for table in names(sources) if tables else ():
        read_table(sources, table, notebook)
    return notebook.issues


def read_folder(folder: Path) -> Sources:
    """Read every file a definition may refer to: YAML, code tables, hooks."""
    files = [
        *folder.glob("*.yaml"),
        *folder.glob("*.py"),
        *folder.glob(f"{FOLDER}*.csv"),
        *folder.glob("include/*.yaml"),
    ]
    return {path.relative_to(folder).as_posix(): _text(path) for path in sorted(files)}


def _text(path: Path) -> str:
    """Read a file as UTF-8; bytes that are not show up as a mistake where they matter."""
    return path.read_bytes().decode("utf-8-sig", errors="replace")


def definition_names(sources: Sources) -> list[str]:
    """Name the definitions of a folder: the YAML files on its top level."""
    return sorted(
        file.removesuffix(".yaml") for file in sources if file.endswith(".yaml") and "/" not in file
    )


def _compile(sources: Sources, name: str, notebook: Diagnostics) -> Compiled | None:
    file = f"{name}.yaml"
    if file not in sources:
        place = YamlNode(None, file, 1, 1)
        notebook.unknown(place, "mapping", name, definition_names(sources))
        return None
    root = load_tree(sources, file, notebook)
    if root is None:
        return None
    kind_node = root.get("kind")
    if kind_node is None:
        if not notebook.failed:  # it may stand in what could not be included
            notebook.error(root, "kind", f"kind is missing: one of {', '.join(KINDS)}")
        return None
    kind = notebook.choice(kind_node, "kind", KINDS)
    if kind is None:
        return None
    entries = notebook.mapping(root, (*GENERAL, *KINDS[kind]))
    shop = CompilationContext(sources, notebook)
    made = _made(kind, name, root, entries, shop)
    files = tuple(sorted({file, *shop.files, *notebook.included}))
    made = replace(made, version=_version(sources, files), files=files)
    if isinstance(made, InboundMapping):
        return replace(made, sources={file: sources[file] for file in files})
    return made


def _made(
    kind: str, name: str, root: YamlNode, entries: dict[str, YamlNode], shop: CompilationContext
) -> Compiled:
    if kind in ("results", "status"):
        return compile_outbound(name, root, entries, shop)
    taken = compile_acceptance(entries.get("accept"), root, shop.notebook)
    plan: OrderRules | PatientRules
    compile_plan = compile_orders if kind == "orders" else compile_patients
    plan = compile_plan(root, entries, shop)
    return InboundMapping(name, "", taken, plan, takes_long=shop.notebook.takes_long)


def _version(sources: Sources, files: Sequence[str]) -> str:
    """Hash everything a definition was compiled from."""
    digest = sha256()
    for name in files:
        digest.update(f"{name}\0{sources[name]}\0".encode())
    return digest.hexdigest()[:16]
