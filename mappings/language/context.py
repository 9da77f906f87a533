"""Compilation context: the files, diagnostics, tables, hooks and data types that one definition
shares.

Lives as long as the compilation; nothing of it is in what is compiled.

Enough to keep a sender's extra components, subcomponents and repetitions from making our
message invalid. Not a validator. The shapes are those of HL7 v2.5.1 (chapter 2A).
"""

from dataclasses import dataclass, field

from mappings.language.code_tables import CodeTable, file_of, names, read_table
from mappings.language.diagnostics import Diagnostics, Sources, YamlNode
from mappings.language.hooks import MappingHook, find_hook


@dataclass(slots=True)
class CompilationContext:
    """The shared things, and how to look them up by name."""

    sources: Sources
    notebook: Diagnostics
    tables: dict[str, CodeTable] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    """Files beside the definition that this mapping depends on."""
    used: set[str] = field(default_factory=set)
    """Variables and loops that segments of the definition name."""
    paths: list[str] = field(default_factory=list)
    """The places rules look at, in the order of compilation."""
    refusing: bool = False
    """Whether a rule compiled since this was reset may refuse a message."""

    def table(self, node: YamlNode) -> CodeTable | None:
        """Find a code table by name; None (with an issue) when there is none."""
        name = self.notebook.choice(node, "code table", names(self.sources))
        if name is None:
            return None
        if name not in self.tables:
            self.files.add(file_of(name))
            self.tables[name] = read_table(self.sources, name, self.notebook)
        return self.tables[name]

    def hook(self, node: YamlNode) -> MappingHook | None:
        """Find a hook; None (with an issue) when there is none."""
        return find_hook(node, self.sources, self.notebook, self.files)
