"""What a rule of a definition does, in words: `reads PID-2.1, else PID-3.1; required`."""

from collections.abc import Callable, Mapping

from mappings.language.outline import OutlineRule, OutlineSource


def rule_words(rule: OutlineRule) -> str:
    """Return what a rule does, in words."""
    if rule.sources and rule.sources[0].kind in ("text", "condition"):
        return f"is {', '.join(source.text for source in rule.sources)}"
    parts = [_source_words(source) for source in rule.sources]
    words = f"reads {', else '.join(parts)}" if parts else "has no source"
    return "; ".join([words, *_modifier_words(rule.modifiers, rule.condition)])


def _source_words(source: OutlineSource) -> str:
    every = {"all": f"all of {source.text}", "first": f"the first {source.text}"}
    words = every.get(source.kind, source.text)
    if source.kind == "const":
        words = f"the text {source.text}"
    others = _modifier_words(source.modifiers, source.condition)
    return f"{words} ({', '.join(others)})" if others else words


def _modifier_words(modifiers: Mapping[str, str], condition: str) -> list[str]:
    words: Mapping[str, Callable[[str], str]] = {
        "as": lambda value: f"as {value}",
        "codes": lambda value: f"translated by {value}",
        "codes_back": lambda value: f"translated back by {value}",
        "unknown": lambda value: f"unknown codes: {value}",
        "extract": lambda value: f"the part that matches {value}",
        "where": lambda value: f"where {value}",
        "after": lambda value: f"after {value}",
        "default": lambda value: (
            "else the site of the listener" if value == "listener" else f"else {value}"
        ),
        "required": lambda value: "required" if value.lower() == "true" else "not required",
    }
    found = [words[key](value) for key, value in modifiers.items() if key in words]
    return [*found, *([f"only if {condition}"] if condition else [])]
