"""The compilation context: what the functions that compile one definition share."""

from dataclasses import dataclass, field

from mappings.language.code_tables import CodeTable, read_table, table_file, table_names
from mappings.language.diagnostics import Diagnostics, Sources, YamlNode
from mappings.language.hooks import MappingHook, find_hook


@dataclass(slots=True)
class CompilationContext:
    """
    The sources, diagnostics and code tables of one compilation.

    Compiled mappings do not refer to it.
    """

    sources: Sources
    diagnostics: Diagnostics
    tables: dict[str, CodeTable] = field(default_factory=dict)
    files: set[str] = field(default_factory=set)
    """The code tables and hook files that the definition uses."""
    used: set[str] = field(default_factory=set)
    """The variables, loops and parts that segments of the definition name."""
    paths: list[str] = field(default_factory=list)
    """The paths of the compiled rules, in order."""
    refusing: bool = False
    """Whether a rule that was compiled since the last reset may refuse a message."""

    def table(self, node: YamlNode) -> CodeTable | None:
        """Look up a code table by name. Reports an issue and returns None if there is none."""
        name = self.diagnostics.read_choice(node, "code table", table_names(self.sources))
        if name is None:
            return None
        if name not in self.tables:
            self.files.add(table_file(name))
            self.tables[name] = read_table(self.sources, name, self.diagnostics)
        return self.tables[name]

    def hook(self, node: YamlNode) -> MappingHook | None:
        """Look up a hook. Reports an issue and returns None if there is none."""
        return find_hook(node, self.sources, self.diagnostics, self.files)
