"""
Trying, comparing and learning for the console: `bridge.console.desk.Bench`.

Bounded in time: what is not reached by then is left out, and how much that was is told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from typing_extensions import override

from bridge.console.desk import Bench, Question, Specimen
from bridge.console.errors import Mistaken
from bridge.console.numbers import Kind
from bridge.console.searching import Search, search
from bridge.store.database import Database
from bridge.wiring import present
from bridge.wiring.authoring import trying
from bridge.wiring.authoring.checking import checked
from bridge.wiring.authoring.differing import answer, as_read_now
from bridge.wiring.authoring.hook_permission import require_code
from bridge.wiring.authoring.refusing import refusals
from bridge.wiring.authoring.told import issue
from bridge.wiring.choosing import DRAFT, sources_of
from bridge.wiring.comparing import compared, comparing
from bridge.wiring.drafting import NoDraft
from bridge.wiring.order_readers import OrderReader, OrderReaders
from bridge.wiring.samples import Sample, stored, stored_one
from bridge.wiring.shelf import in_force, recaller, whole
from config import Settings
from mappings.compiler import Compiled
from mappings.hl7.files import messages_in, messages_in_text
from mappings.learning import learn
from mappings.scope import Defaults
from mappings.variants import deadline

_SECONDS = 8.0
_MOST_OF_A_NUMBER = 20
NOW = "now"
"""Which version reads each message now: whichever its listener takes it by."""


class AuthorsBench(Bench):
    """See `bridge.console.desk.Bench`."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._recall = recaller(database)

    @override
    def pasted(self, text: str) -> Sequence[bytes]:
        return messages_in_text(text)

    @override
    def uploaded(self, data: bytes) -> Sequence[bytes]:
        return messages_in(data)

    @override
    def stored(self, name: str, last: int, control: str) -> Sequence[Mapping[str, Any]]:
        samples = self._numbered(control) if control else self._last(name, last)
        return [trying.sample(each) for each in samples]

    @override
    def try_out(
        self, name: str, actor: str, word: str, specimens: Sequence[Specimen], *, code: bool = False
    ) -> Mapping[str, Any]:
        with refusals():
            made = self._made(name, actor, word, code=code)
        reader = self._reader()
        late = deadline(_SECONDS)
        samples = (self._sample(name, each) for each in specimens)
        trials = [trying.trial(made, each, reader, late) for each in samples if not late()]
        return {"version": made.version, "trials": trials, "left": len(specimens) - len(trials)}

    @override
    def compare(self, question: Question) -> Mapping[str, Any]:
        name, actor = question.name, question.actor
        samples = self._last(name, question.last)
        with refusals():
            after = self._made(name, actor, question.after, code=question.code)
            if question.before == NOW:
                look = as_read_now(self._settings, self._database, after)
            else:
                before = self._made(name, actor, question.before, code=question.code)
                look = comparing(before, after, self._reader())
        return answer(
            compared(samples, look, deadline(_SECONDS)), after.version, values=question.values
        )

    @override
    def learn(self, payloads: Sequence[bytes]) -> Mapping[str, Any]:
        return {**asdict(learn(payloads)), "messages": len(payloads)}

    def _last(self, name: str, count: int) -> list[Sample]:
        return stored(self._settings, self._database, name, count)

    def _numbered(self, control: str) -> list[Sample]:
        wanted = Search(kind=Kind.CONTROL, number=control, limit=_MOST_OF_A_NUMBER)
        known = present.current(self._settings, self._database).listener
        listeners = {each.name: each for each in known}
        return [
            stored_one(self._database, listeners[row.listener], row)
            for row in search(self._database, wanted).rows
            if row.listener in listeners
        ]

    def _sample(self, name: str, specimen: Specimen) -> Sample:
        """Lend a message what its listener knows; what was pasted comes by one that reads so."""
        known = present.current(self._settings, self._database).listener
        fit = [each for each in known if each.name == specimen.listener]
        fit += [each for each in known if name in each.mappings]
        listener = next(iter([*fit, *known]), None)
        now = datetime.now(UTC)
        if listener is None:
            return Sample("", specimen.payload, Defaults("", "UTC", now))
        defaults = Defaults(listener.site, listener.time_zone, now)
        return Sample(
            "",
            specimen.payload,
            defaults,
            listener.charset,
            listener.name,
            specimen.mapping,
            specimen.version,
        )

    def _made(self, name: str, actor: str, word: str, *, code: bool) -> Compiled:
        """Compile a version; a draft that does not exist is what is in force."""
        try:
            sources = sources_of(self._settings, self._database, name, word, actor)
        except NoDraft:
            if word != DRAFT:
                raise
            sources = whole(self._settings, self._database, name)
        require_code(self._settings, self._database, name, sources, code=code)
        found = checked(sources, name)
        if found.made is None:
            raise Mistaken(
                "the definition has mistakes", issues=[issue(each) for each in found.issues]
            )
        return found.made

    def _reader(self) -> OrderReader:
        """Find what reads orders: the version that each message was stored with."""
        current = present.current(self._settings, self._database)
        return OrderReaders(current, in_force(self._settings, self._database), self._recall)
