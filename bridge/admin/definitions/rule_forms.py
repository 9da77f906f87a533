"""
The rules of a definition for the forms of the editor: its outline, and changes of one rule.

A change returns edits of the author's text. Nothing is stored: the page applies the edits and saves
the draft.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bridge.active_settings import all_sources
from bridge.admin.definitions.drafts import (
    DRAFT,
    NoDraft,
    as_operator_errors,
    issue_json,
    require_code_permission,
    require_readable,
    sources_of,
)
from bridge.admin.errors import InvalidContent, NoSuchItem
from bridge.store.database import Database
from config import Settings
from mappings.authoring.edits import Change, edit_rule, rule_parts
from mappings.authoring.rule_words import rule_words
from mappings.authoring.text_edits import EditRefused, TextEdit, apply_edits
from mappings.language.diagnostics import Sources
from mappings.language.outline import OutlineRule, OutlineSource, outline

_ASTRAL = 0xFFFF  # characters beyond it are two code units in a browser


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A change of the rule of a target, in the author's files. `code`: permission `code`."""

    name: str
    files: Mapping[str, str]
    target: str
    change: Change
    code: bool = False


class RuleForms:
    """The outline of definitions and changes of their rules. Blocking."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database

    def outline(self, name: str, actor: str, version: str) -> Mapping[str, Any]:
        """Return all rules of a version by target; without a draft, `draft` is the active one."""
        sources = self._sources(name, actor, version)
        if f"{name}.yaml" not in sources:
            raise NoSuchItem("there is no such definition")
        found = outline(sources, name)
        rules = [rule_json(rule) for rule in found.rules]
        return {"definition": name, "kind": found.kind, "rules": rules}

    def edit(self, change: RuleChange) -> Mapping[str, Any]:
        """
        Return the edits that change one rule, with offsets in UTF-16 code units, and the new rule.

        Raises InvalidContent if the change cannot be made, or adds an error.
        """
        name, files = change.name, dict(change.files)
        with as_operator_errors():
            require_readable(files)
        sources = {**all_sources(self._settings, self._database, name), **files}
        require_code_permission(
            self._settings, self._database, name, sources, files, code=change.code
        )
        try:
            found = edit_rule(sources, name, change.target, change.change)
        except EditRefused as refused:
            issues = [issue_json(issue) for issue in refused.issues]
            raise InvalidContent(refused.reason, issues=issues) from None
        text = sources.get(found.file, "")
        after = outline({**sources, found.file: apply_edits(text, found.edits)}, name)
        rule = after.rule(change.target)
        return {
            "file": found.file,
            "edits": in_code_units(text, found.edits),
            "said": found.said,
            "rule": None if rule is None else rule_json(rule),
            "issues": [issue_json(issue) for issue in found.issues],
        }

    def _sources(self, name: str, actor: str, version: str) -> Sources:
        with as_operator_errors():
            try:
                return sources_of(self._settings, self._database, name, version, actor)
            except NoDraft:
                if version != DRAFT:
                    raise
                return all_sources(self._settings, self._database, name)


def rule_json(rule: OutlineRule) -> dict[str, Any]:
    """Return the JSON form of a rule; `words` says what it does."""
    parts, own = rule_parts(rule)
    return {
        "target": rule.target,
        "file": rule.file,
        "line": rule.line,
        "column": rule.column,
        "end_line": rule.end_line,
        "end_column": rule.end_column,
        "sources": [_source_json(source) for source in rule.sources],
        "modifiers": dict(rule.modifiers),
        "condition": rule.condition,
        "inherited": rule.inherited,
        "form": rule.form,
        "within": list(rule.within),
        "words": rule_words(rule),
        "parts": parts,
        "own": own,
    }


def _source_json(source: OutlineSource) -> dict[str, Any]:
    return asdict(source)


def in_code_units(text: str, edits: Sequence[TextEdit]) -> list[dict[str, Any]]:
    """Return edits with the offsets of a browser, where some characters count twice."""

    def units(offset: int) -> int:
        return offset + sum(ord(character) > _ASTRAL for character in text[:offset])

    return [
        {"start": units(edit.start), "end": units(edit.end), "insert": edit.insert}
        for edit in edits
    ]
