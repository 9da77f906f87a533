"""Code for rules and conditions: what they mean, for messages of one form."""

from mappings import plain, transforms
from mappings.dead import LISTENER
from mappings.fetch import NULL
from mappings.forms.conditions import Condition, Conditions
from mappings.forms.fields import DEFAULTS, SENT, Desk, Fields
from mappings.forms.gathering import Gathering
from mappings.forms.ground import Ground
from mappings.forms.said import POSITIONAL, joined, scopes
from mappings.forms.writer import NOTHING, Folded, Text, Unwritable
from mappings.meaning import (
    Aged,
    Coded,
    Const,
    Defaulted,
    Extracted,
    Fetched,
    First,
    Function,
    Gathered,
    Joined,
    Meaning,
    Meanings,
    Opaque,
    Transformed,
    When,
)

CUT = "S"
"""The variable of the scopes that rules see, None until one is asked."""
GIVE_UP = "return None"


class Values:
    """Writes what rules yield in messages of one form."""

    def __init__(self, desk: Desk, meanings: Meanings) -> None:
        self._writer, self._nullable = desk.writer, desk.form.quoted
        self._meanings, self._setting = meanings, desk.setting
        self._carets = desk.form.manner.delimiters.component == plain.CARET
        self._fields = Fields(desk)
        self._conditions = Conditions(desk.writer, self._value)
        self._gathering = Gathering(desk, self._fields, self._conditions.condition)
        self._null = self._writer.constant(NULL)

    def rule(self, ground: Ground, rule: Function) -> Text:
        """Write a rule; one that cannot be written is asked itself. Raises Unwritable for rows."""
        try:
            with self._writer.attempt():
                return self._value(ground, self._meanings.of(rule))
        except Unwritable:
            return self._asked(ground, rule)

    def condition_of(self, ground: Ground, condition: Function) -> Condition:
        """Write a condition. Raises Unwritable."""
        return self._conditions.condition(ground, self._meanings.of(condition))

    def scope(self, ground: Ground) -> str:
        """Give the expression of the scope that rules see."""
        if ground.row:
            raise Unwritable
        cut = f"{self._writer.constant(scopes)}({SENT}, {DEFAULTS})"
        self._writer.put(f"if {CUT} is None: {CUT} = {cut}")
        return f"{CUT}[{ground.group}]"

    def is_said(self, text: Text) -> str:
        """Write whether a variable has a value that is no null."""
        name = text.name
        return f"{name} and {name} != {self._null}" if text.nullable else name

    def _value(self, ground: Ground, what: Meaning) -> Text:
        """Write a value, or use the variable that has it already."""
        key = (ground.key, what)
        found: Text | None = self._writer.known(key)
        if found is None:
            found = self._written(ground, what)
            if found.pure:
                self._writer.know(key, found)
        return found

    def _written(self, ground: Ground, what: Meaning) -> Text:
        match what:
            case Const():
                return Text(what.text)
            case Fetched():
                found = self._fields.fetched(ground, what)
            case Gathered():
                found = self._gathering.gathered(ground, what)
            case First():
                found = self._first(ground, what)
            case Joined():
                found = self._joined(ground, what)
            case Aged():
                found = self._aged(ground, what)
            case Opaque():
                found = self._asked(ground, what.function)
            case When():
                found = self._when(ground, what)
            case _:
                found = self._changed(ground, what)
        return found

    def _changed(self, ground: Ground, what: Meaning) -> Text:
        """Write what is done to one value."""
        match what:
            case Extracted():
                found = self._value(ground, what.of)
                search = self._writer.constant(what.search)
                return self._after(found, f"{search}({self._writer.of(found)}) or ''")
            case Transformed():
                found = self._value(ground, what.of)
                return self._after(found, self._transformed(found, what))
            case Coded():
                return self._coded(ground, what)
            case Defaulted():
                return self._defaulted(ground, what)
            case _:
                raise Unwritable

    def _transformed(self, text: Text, what: Transformed) -> str:
        """Write a transform; where a name can only be plain, without looking whether it is."""
        name, constant = self._writer.of(text), self._writer.constant
        applied = f"{constant(what.apply)}({name}, {self._setting})"
        shorter = transforms.SHORTER.get(what.apply)
        if shorter is not None:
            return f"{constant(shorter)}({name})"
        if what.apply in transforms.PARTS:
            begin, end = transforms.PARTS[what.apply]
            return f"{name}[{begin}:{end}] if {self._is_time(name)} else {applied}"
        quick = transforms.PLAIN.get(what.apply)
        if quick is None or text.marks is None or not self._carets:
            return applied
        unmarked = "".join(f"{constant(mark)} not in {name} and " for mark in text.marks)
        return f"{constant(quick)}({name}) if {unmarked}{name}.isprintable() else {applied}"

    def _is_time(self, name: str) -> str:
        """Give the variable that says whether another is a plain time."""
        key = ("time", name)
        known: str | None = self._writer.known(key)
        if known is None:
            known = self._writer.let(f"{self._writer.constant(plain.looks_like_time)}({name})")
            self._writer.know(key, known)
        return known

    def _asked(self, ground: Ground, rule: Function) -> Text:
        """Ask a rule on the scope that it knows."""
        asked = f"{self._writer.constant(rule)}({self.scope(ground)})"
        return Text(None, self._writer.let(asked), nullable=True, pure=False)

    def _after(self, text: Text, changed: str) -> Text:
        """Write a change to a value; nothing and null stay what they are."""
        if text.said is not None:
            if text.said in ("", NULL):
                return text
            return Text(None, self._writer.let(changed), nullable=True, pure=text.pure)
        name = self._writer.let(f"({changed}) if {self.is_said(text)} else {text.name}")
        return Text(None, name, text.nullable or self._nullable, text.pure)

    def _coded(self, ground: Ground, what: Coded) -> Text:
        found = self._value(ground, what.of)
        if found.said in ("", NULL):
            return found
        name, look_up = (
            self._writer.let(self._writer.of(found)),
            self._writer.constant(what.look_up),
        )
        said = self.is_said(found._replace(name=name)) if found.said is None else "True"
        known, entries = self._writer.fresh(), self._writer.constant(what.entries)
        with self._writer.under(f"if {said}:"):
            self._writer.put(f"{known} = {entries}.get({name}.strip().upper())")
            self._writer.put(f"if {known} is None: {known} = {look_up}({name}, {DEFAULTS})")
            self._writer.put(f"if {known} is None: {GIVE_UP}")
            self._writer.put(f"{name} = {known}")
        return Text(None, name, nullable=True, pure=False)

    def _defaulted(self, ground: Ground, what: Defaulted) -> Text:
        found = self._value(ground, what.of)
        listener = what.text == LISTENER
        if found.said is not None and found.said not in ("", NULL):
            return found
        other = f"{DEFAULTS}.site" if listener else self._writer.constant(what.text)
        if found.said is not None:
            return (
                Text(None, self._writer.let(other), nullable=True) if listener else Text(what.text)
            )
        name = self._writer.let(f"{found.name} if {self.is_said(found)} else {other}")
        return Text(None, name, nullable=True, pure=found.pure)

    def _aged(self, ground: Ground, what: Aged) -> Text:
        birth, day = self._value(ground, what.birth), self._value(ground, what.day)
        if birth.said == "":
            return NOTHING
        arguments = f"{self._writer.of(birth)}, {self._writer.of(day)}, {self._setting}"
        aged = f"{self._writer.constant(transforms.age)}({arguments})"
        if birth.said is None and day.said is None:
            plainly = f"{self._is_time(birth.name)} and {self._is_time(day.name)}"
            years = f"{self._writer.constant(plain.years)}({birth.name}, {day.name})"
            aged = f"({years} if {plainly} else '') or {aged}"
        name = self._writer.let(aged)
        return Text(None, name, pure=birth.pure and day.pure)

    def _first(self, ground: Ground, what: First) -> Text:
        """Write the first source that is not known to be empty, then what stands behind it."""
        parts, found = list(what.parts), NOTHING
        while parts and found.said == "":
            found = self._value(ground, parts.pop(0))
        if found.said not in (None, NULL):
            return found
        start, value, nulls = len(self._writer.lines), self._writer.fresh(), self._writer.fresh()
        self._writer.put(f"{nulls} = ''")
        self._take(found, value, nulls)
        begun, texts = len(self._writer.lines), [found]
        for part in parts:
            with self._writer.under(f"if not {value}:"):
                other = self._value(ground, part)
                if other.said != "":
                    texts.append(other)
                    self._take(other, value, nulls)
        if len(self._writer.lines) == begun:
            self._writer.drop(start)
            return found
        nullable = any(text.nullable or text.said == NULL for text in texts)
        if nullable:
            self._writer.put(f"if not {value}: {value} = {nulls}")
        pure = all(text.pure for text in texts)
        marks = {mark for text in texts for mark in text.marks or ()}
        unknown = any(text.marks is None for text in texts)
        return Text(None, value, nullable, pure, None if unknown else tuple(sorted(marks)))

    def _take(self, text: Text, value: str, nulls: str) -> None:
        """Take a value; a null is laid aside."""
        self._writer.put(f"{value} = {self._writer.of(text)}")
        if text.nullable or text.said == NULL:
            self._writer.put(f"if {value} == {self._null}: {value}, {nulls} = '', {value}")

    def _joined(self, ground: Ground, what: Joined) -> Text:
        found = [self._value(ground, part) for part in what.parts]
        places = what.separator in POSITIONAL
        said = [text for text in found if places or text.said != ""]
        if len(said) <= 1:
            return said[0] if said else NOTHING
        nullable = '"' in what.separator or any(t.nullable or '"' in (t.said or "") for t in said)
        separator = self._writer.constant(what.separator)
        values = f"({', '.join(map(self._writer.of, said))})"
        if nullable or places:
            name = self._writer.let(f"{self._writer.constant(joined)}({values}, {separator})")
        else:
            name = self._writer.let(self._joined_plainly([*map(self._writer.of, said)], separator))
        return Text(None, name, nullable, all(text.pure for text in found))

    def _joined_plainly(self, names: list[str], separator: str) -> str:
        if len(names) > 2:  # noqa: PLR2004  # two are joined more quickly
            return f"{separator}.join(filter(None, ({', '.join(names)})))"
        first, second = names
        return f"{first} + {separator} + {second} if {first} and {second} else {first} or {second}"

    def _when(self, ground: Ground, what: When) -> Text:
        try:
            with self._writer.attempt():
                return self._conditional(ground, what)
        except Folded:
            return NOTHING

    def _conditional(self, ground: Ground, what: When) -> Text:
        met = self._conditions.condition(ground, what.condition)
        if met is False:
            raise Folded
        if met is True:
            return self._value(ground, what.of)
        value = self._writer.let("''")
        with self._writer.under(f"if {met}:"):
            found = self._value(ground, what.of)
            if found.said == "":
                raise Folded
            self._writer.put(f"{value} = {self._writer.of(found)}")
        return Text(None, value, found.nullable or found.said == NULL, found.pure)
