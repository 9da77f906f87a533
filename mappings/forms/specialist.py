"""
Maps messages by their form: the third of a form has code written for it, which later ones run.

The rules stay the reference. Code is kept only if it gives for the message that it was written
for what the rules gave; it gives no answer for what differs from the messages that were seen,
and none where anything is to be refused: then the rules are asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mappings.events import OrderEvent
from mappings.forms.events import Events
from mappings.forms.fields import DEFAULTS, LINES, SENT, Desk
from mappings.forms.form import Form, Sent
from mappings.forms.ground import Lines, Sightings
from mappings.forms.kept import kept
from mappings.forms.values import CUT, Values
from mappings.forms.writer import Unwritable, Writer
from mappings.hl7.message import Message
from mappings.meaning import Meanings
from mappings.orders import OrderPlan
from mappings.scope import Defaults

MOST_WRITTEN = 256
"""Forms that have code; beyond it the oldest is forgotten, and later ones must be seen oftener."""
MOST_MET = 1024
"""Forms that have been seen and have none; beyond it all are forgotten."""
_SIGHTINGS = 3
_MOST_SIGHTINGS = 48

Code = Callable[[list[str], Defaults, Sent], "list[OrderEvent] | None"]


@dataclass(slots=True)
class _Met:
    """What is known of one form."""

    seen: Sightings
    due: int
    """In how many sightings code is to be written."""
    news: bool = True
    """Whether anything was seen since that the code does not know."""
    written: int = 0
    code: Code | None = None


@dataclass(slots=True)
class Specialist:
    """One definition's forms. Any thread may ask; what it changes is replaced as a whole."""

    plan: OrderPlan
    meanings: Meanings
    _written: dict[Form, _Met] = field(default_factory=dict)
    _met: dict[Form, _Met] = field(default_factory=dict)
    _sightings: int = _SIGHTINGS
    refuted: int = 0
    """How often code gave something else than the rules, and was forgotten: a mistake of ours."""

    def events(self, message: Sent, defaults: Defaults) -> list[OrderEvent] | None:
        """Map a message; None where the rules must be asked."""
        known = self._written.get(message.form)
        if known is None or known.code is None:
            return None
        missed = 0 if defaults.missed is None else len(defaults.missed)
        try:
            events = known.code(message.lines, defaults, message)
        except Exception:  # noqa: BLE001  # whatever it was, the rules say it, or do better
            events = None
        if events is None and defaults.missed is not None:
            del defaults.missed[missed:]
        return events

    def see(
        self, message: Sent, read: Message, events: Sequence[OrderEvent], defaults: Defaults
    ) -> None:
        """Learn from a message that the rules have mapped; `read` is what they saw."""
        if len(read.names) != len(message.lines):
            return
        known = self._written.get(message.form) or self._met.get(message.form)
        if known is None:
            if len(self._met) >= MOST_MET:
                self._met.clear()
            seen = Sightings.none(len(message.lines))
            known = self._met[message.form] = _Met(seen, self._sightings)
        known.news |= known.seen.add(message.lines, message.form.manner.delimiters)
        known.due -= 1
        if known.due <= 0 and known.news:
            self._write(known, message, read)
            self._check(known, message, list(events), defaults._replace(missed=None))

    def _write(self, known: _Met, message: Sent, read: Message) -> None:
        known.written += 1
        known.due, known.news = _SIGHTINGS << known.written, False
        try:
            known.code = written(self.plan, self.meanings, message.form, read, known.seen)
        except Unwritable:
            known.code = None
        except Exception:  # noqa: BLE001  # a mistake of ours must cost no message
            known.code = None
            self.refuted += 1
        self._met.pop(message.form, None)
        if message.form not in self._written and len(self._written) >= MOST_WRITTEN:
            for oldest in list(self._written)[:1]:
                self._written.pop(oldest, None)
            self._sightings = min(self._sightings + 1, _MOST_SIGHTINGS)
        self._written[message.form] = known

    def _check(
        self, known: _Met, message: Sent, events: list[OrderEvent], defaults: Defaults
    ) -> None:
        """Forget code that gives something else than the rules gave."""
        if known.code is None:
            return
        found = self.events(message, defaults)
        if found is not None and found != events:
            known.code = None
            self.refuted += 1


def written(
    plan: OrderPlan, meanings: Meanings, form: Form, message: Message, seen: Sightings
) -> Code:
    """Write the code for a form. Raises Unwritable."""
    writer = Writer()
    lines = Lines(writer, message.names, seen, form)
    values = Values(Desk(writer, lines, form), meanings)
    cut, grounds = kept(message, plan, lines)
    Events(writer, values, plan, cut).write(grounds)
    opening = [*lines.opening(), f"    {CUT} = None"]
    return writer.function(f"{LINES}, {DEFAULTS}, {SENT}", opening)
