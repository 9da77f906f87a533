"""Code for the Metadata of a form: values, a key for each segment of a kind, whole segments."""

from collections.abc import Sequence

from mappings.fetch import NULL
from mappings.forms.fields import LINES
from mappings.forms.ground import Ground
from mappings.forms.kept import Kept
from mappings.forms.said import numbered
from mappings.forms.values import Values
from mappings.forms.writer import Text, Unwritable, Writer
from mappings.gathering import Rule
from mappings.metadata import SHORT, Each, MetadataRules, fitting

_METADATA = "N"


def lines_of(lines: Sequence[int]) -> str:
    """Write several lines as they were sent."""
    return f"({''.join(f'{LINES}[{line}], ' for line in lines)})"


class Metadata:
    """Writes the Metadata of messages of one form."""

    def __init__(self, writer: Writer, values: Values, rules: MetadataRules, kept: Kept) -> None:
        self._writer, self._values, self._rules, self._kept = writer, values, rules, kept
        self._null = writer.constant(NULL)

    def write(self, ground: Ground, tags: str) -> None:
        """Write the Metadata of a group into its tags."""
        writer, rules = self._writer, self._rules
        writer.put(f"{_METADATA} = {{}}")
        for key, rule in rules.values.items():
            self._entry(ground, writer.constant(key), rule)
        for each in rules.each:
            self._each(ground, each)
        for name, lines in self._kept.whole[ground.group].items():
            key, newline = writer.constant(name), writer.constant("\n")
            text = f"{newline}.join({lines_of(lines)})" if lines[1:] else f"{LINES}[{lines[0]}]"
            before = f"{_METADATA}[{key}] + {newline} + {text} if {key} in {_METADATA} else {text}"
            writer.put(f"{_METADATA}[{key}] = {before}")
        key = writer.constant("Metadata")
        # The keys of `values` are the definition's own, and few: it is the values that grow.
        keys = sum(map(len, [*rules.values, *self._kept.whole[ground.group]]))
        counted = any(ground.every(each.segment) for each in rules.each)
        rows = f" + len(''.join({_METADATA}))" if counted else ""
        short = f"len(''.join({_METADATA}.values())){rows} < {SHORT - keys}"
        fitted = f"{_METADATA} if {short} else {writer.constant(fitting)}({_METADATA})"
        writer.put(f"if {_METADATA}: {tags}[{key}] = {fitted}")

    def _entry(self, ground: Ground, key: str, rule: Rule) -> None:
        found = self._values.rule(ground, rule)
        if found.said is not None:
            if found.said:
                self._writer.put(f"{_METADATA}[{key}] = {self._emptied(found)}")
            return
        self._writer.put(f"if {found.name}: {_METADATA}[{key}] = {self._emptied(found)}")

    def _each(self, ground: Ground, each: Each) -> None:
        lines = ground.every(each.segment)
        if not lines:
            return
        try:
            with self._writer.attempt():
                self._rows(ground, each, lines)
        except Unwritable:
            fill = self._writer.constant(each.fill)
            self._writer.put(f"{fill}({self._values.scope(ground)}, {_METADATA})")

    def _rows(self, ground: Ground, each: Each, lines: Sequence[int]) -> None:
        """Write a key for every segment of a kind."""
        writer, row = self._writer, self._writer.fresh()
        numbers = writer.let("{}")
        with writer.under(f"for {row} in {self._kept.lines.several(lines, 0)}:"):
            one = ground.alone(each.segment, row, lines)
            if each.condition is not None:
                met = self._values.condition_of(one, each.condition)
                if met is not True:
                    writer.put(f"if not {met}: continue")
            key, value = self._values.rule(one, each.key), self._values.rule(one, each.value)
            self._unless_said(key)
            if value.said is None:
                writer.put(f"if not {value.name}: continue")
            elif not value.said:
                writer.put("continue")
            name = writer.let(writer.of(key))
            count = f"{writer.constant(numbered)}({name}, {_METADATA}, {numbers})"
            writer.put(f"if {name} in {_METADATA}: {name} = {count}")
            writer.put(f"{_METADATA}[{name}] = {self._emptied(value)}")

    def _unless_said(self, key: Text) -> None:
        """Write that a segment without a key is passed over."""
        said = self._values.is_said(key) if key.said is None else key.said not in ("", NULL)
        if said is not True:
            self._writer.put(f"if not ({said}): continue")

    def _emptied(self, text: Text) -> str:
        """Write a value; a null is an empty text."""
        if text.said is not None:
            return self._writer.constant("" if text.said == NULL else text.said)
        return f"'' if {text.name} == {self._null} else {text.name}" if text.nullable else text.name
