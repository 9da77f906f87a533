"""Code for the events of a form: tags, Metadata, links, and what else an order is told with."""

from collections.abc import Sequence

from mappings.events import CHILD_OF, Action, LinkSignal, OrderEvent
from mappings.fetch import NULL
from mappings.forms.ground import Ground
from mappings.forms.kept import Kept
from mappings.forms.said import numbered
from mappings.forms.values import DEFAULTS, GIVE_UP, LINES, Values
from mappings.forms.writer import Text, Unwritable, Writer
from mappings.gathering import Rule
from mappings.links import Standing
from mappings.metadata import Each, fitting
from mappings.orders import PARENTS, SWITCHES, OrderPlan
from mappings.tags import IDENTIFIERS, LONGEST, TagRule, shortened

_TAGS, _APP, _METADATA, _SIGNALS = "T", "A", "N", "K"


class Events:
    """Writes the events of messages of one form."""

    def __init__(self, writer: Writer, values: Values, plan: OrderPlan, kept: Kept) -> None:
        self._writer, self._values, self._plan, self._kept = writer, values, plan, kept
        self._null = writer.constant(NULL)
        self._tagged: dict[tuple[int, str], Text] = {}

    def write(self, grounds: Sequence[Ground]) -> None:
        """Write the events of all groups, and how they are given back. Raises Unwritable."""
        wanted = [ground for ground in grounds if self._kept.imaging[ground.group]]
        for ground in wanted:
            self._only(ground)
        between = self._between(wanted)
        made = []
        for ground in grounds:
            if ground in wanted:
                made.append(self._event(ground, between))
            else:
                made.append(self._ignored(ground))
        self._writer.put(f"return [{', '.join(made)}]")

    def _only(self, ground: Ground) -> None:
        """Leave it to the rules where `only` leaves a group out."""
        if self._plan.only is None:
            return
        met = self._values.condition_of(ground, self._plan.only)
        if met is False:
            raise Unwritable
        if met is not True:
            self._writer.put(f"if not {met}: {GIVE_UP}")

    def _between(self, wanted: Sequence[Ground]) -> str:
        """Write the signals between several groups; the variable that has them, by group."""
        links, standings = self._plan.links, []
        for ground in wanted:
            mrn, accession = (self._tag(ground, tag) for tag in ("PatientMRN", "Accession"))
            if len(wanted) == 1:
                return ""
            unless = links.unless_differ if links.message_group else None
            differ = Text("") if unless is None else self._values.rule(ground, unless)
            named = ", ".join(map(self._writer.of, (mrn, accession, differ)))
            standings.append(f"{self._writer.constant(Standing)}({named})")
        if not standings or not (links.accession or links.message_group):
            return ""
        between = self._writer.constant(links.between)
        return self._writer.let(f"{between}([{', '.join(standings)}])")

    def _tag(self, ground: Ground, tag: str) -> Text:
        """Write the value of a tag, once; the null of an identifier is nothing."""
        found = self._tagged.get((ground.group, tag))
        if found is None:
            found = self._valued(ground, self._plan.tags[tag])
            self._tagged[ground.group, tag] = found
        return found

    def _valued(self, ground: Ground, rule: TagRule) -> Text:
        found = self._values.rule(ground, rule.rule)
        if rule.tag not in IDENTIFIERS:
            return found
        if found.said == NULL:
            return Text("")
        if found.said is None and found.nullable:
            name = self._writer.let(f"'' if {found.name} == {self._null} else {found.name}")
            return Text(None, name, pure=found.pure)
        return found

    def _fill(self, into: str, rules: dict[str, TagRule], found: dict[str, Text]) -> None:
        """Write how tags are filled."""
        self._writer.put(f"{into} = {{}}")
        for tag, rule in rules.items():
            text, key = found[tag], self._writer.constant(tag)
            if text.said is not None:
                self._fill_known(f"{into}[{key}]", rule, text.said)
                continue
            cut = f"{self._writer.constant(shortened)}({key}, {text.name})"
            with self._writer.under(f"if {self._values.is_said(text)}:"):
                value = f"{text.name} if len({text.name}) <= {LONGEST} else {cut}"
                self._writer.put(f"{into}[{key}] = {value}")
            if rule.required:
                self._writer.put(f"else: {GIVE_UP}")
            elif text.nullable:
                self._writer.put(f"elif {text.name}: {into}[{key}] = ''")

    def _fill_known(self, place: str, rule: TagRule, text: str) -> None:
        if text in ("", NULL):
            if rule.required:
                raise Unwritable  # no message of this form is taken
            if text:
                self._writer.put(f"{place} = ''")
            return
        value = text if len(text) <= LONGEST else shortened(rule.tag, text)
        self._writer.put(f"{place} = {self._writer.constant(value)}")

    def _event(self, ground: Ground, between: str) -> str:
        writer, plan = self._writer, self._plan
        self._signals(ground)
        control, status = self._code(ground, "control"), self._code(ground, "status")
        decide = writer.constant(plan.control.decide)
        decision = writer.let(f"{decide}({control}, {status})")
        writer.put(f"if {decision} is None: {GIVE_UP}")
        self._fill(_TAGS, plan.tags, {tag: self._tag(ground, tag) for tag in plan.tags})
        site = writer.constant("SiteID")
        writer.put(f"if {site} not in {_TAGS}: {_TAGS}[{site}] = {DEFAULTS}.site")
        writer.put(f"if not {_TAGS}[{site}]: {GIVE_UP}")
        self._metadata(ground)
        app = plan.reporting_app
        self._fill(_APP, app, {tag: self._valued(ground, rule) for tag, rule in app.items()})
        for tag in sorted(SWITCHES & app.keys()):
            key = writer.constant(tag)
            writer.put(f"if {key} in {_APP}: {_APP}[{key}] = {_APP}[{key}].lower() == 'true'")
        if between:
            writer.put(f"{_SIGNALS} += {between}[{self._kept.number(ground.group)}]")
        self._parents(ground)
        return self._made(
            action=f"{decision}.action",
            site=f"{_TAGS}[{site}]",
            location=f"{_TAGS}.get({writer.constant('SiteLocation')}, '')",
            mrn=f"{_TAGS}.get({writer.constant('PatientMRN')}, '')",
            accession=f"{_TAGS}.get({writer.constant('Accession')}, '')",
            clinical_info=_TAGS,
            reporting_app=_APP,
            place=writer.constant(self._kept.places[ground.group]),
            link_signals=f"tuple({_SIGNALS})",
            placer=self._code(ground, "placer"),
            filler=self._code(ground, "filler"),
            echo=self._lines(self._kept.echo[ground.group]),
            order_control=self._code(ground, "control"),
            order_status=self._code(ground, "status"),
            examined=f"{decision}.examined",
        )

    def _made(self, **values: str) -> str:
        """Write one event, each of its values set by its slot: that is what a dataclass does."""
        writer = self._writer
        name = writer.let(f"{writer.constant(object.__new__)}({writer.constant(OrderEvent)})")
        for field, default in self._kept.defaults.items():
            put = writer.constant(getattr(OrderEvent, field).__set__)
            writer.put(f"{put}({name}, {values.get(field) or writer.constant(default)})")
        return name

    def _ignored(self, ground: Ground) -> str:
        """Write the event of a group that orders no examination."""
        constant = self._writer.constant
        site = f"{self._writer.of(self._tag(ground, 'SiteID'))} or {DEFAULTS}.site"
        return self._made(
            action=constant(Action.IGNORE),
            site=self._writer.let(site) if "SiteID" in self._plan.tags else f"{DEFAULTS}.site",
            location=constant(""),
            mrn=self._writer.of(self._tag(ground, "PatientMRN")),
            accession=constant(""),
            clinical_info="{}",
            reporting_app="{}",
            place=constant(self._kept.places[ground.group]),
            note=constant("no imaging order"),
        )

    def _code(self, ground: Ground, name: str) -> str:
        """Write one of the order's numbers and codes: a null is nothing."""
        key = (ground.key, "code", name)
        known: str | None = self._writer.known(key)
        if known is not None:
            return known
        rule = self._plan.order.get(name)
        found = Text("") if rule is None else self._values.rule(ground, rule)
        if found.said is not None:
            said = "" if found.said == NULL else found.said
            return self._writer.constant(said.upper() if name == "control" else said)
        code = f"{found.name}.upper()" if name == "control" else found.name
        if found.nullable:
            code = f"'' if {found.name} == {self._null} else {code}"
        code = code if code == found.name else self._writer.let(code)
        if found.pure:
            self._writer.know(key, code)
        return code

    def _signals(self, ground: Ground) -> None:
        self._writer.put(f"{_SIGNALS} = []")
        for link in self._plan.links.valued:
            met = (
                True
                if link.condition is None
                else self._values.condition_of(ground, link.condition)
            )
            if met is False:
                continue
            if met is True:
                self._signal(ground, link.kind, link.value)
                continue
            with self._writer.under(f"if {met}:"):
                self._signal(ground, link.kind, link.value)

    def _signal(self, ground: Ground, kind: str, rule: Rule) -> None:
        found = self._values.rule(ground, rule)
        if found.said in ("", NULL):
            return
        name = self._writer.of(found)
        said = self._values.is_said(found) if found.said is None else "True"
        signal = f"{self._writer.constant(LinkSignal)}({self._writer.constant(kind)}, {name})"
        self._writer.put(f"if {said}: {_SIGNALS}.append({signal})")

    def _parents(self, ground: Ground) -> None:
        codes = [self._code(ground, name) for name in PARENTS if name in self._plan.order]
        for at, code in enumerate(codes):
            if self._writer.constants.get(code) == "":
                continue
            other = f" and {code} != {codes[0]}" if at else ""
            signal = (
                f"{self._writer.constant(LinkSignal)}({self._writer.constant(CHILD_OF)}, {code})"
            )
            self._writer.put(f"if {code}{other}: {_SIGNALS}.append({signal})")

    def _lines(self, lines: Sequence[int]) -> str:
        return f"({''.join(f'{LINES}[{line}], ' for line in lines)})"

    def _metadata(self, ground: Ground) -> None:
        writer, rules = self._writer, self._plan.metadata
        writer.put(f"{_METADATA} = {{}}")
        for key, rule in rules.values.items():
            self._entry(ground, writer.constant(key), rule)
        for each in rules.each:
            self._each(ground, each)
        for name, lines in self._kept.whole[ground.group].items():
            key, newline = writer.constant(name), writer.constant("\n")
            text = f"{newline}.join({self._lines(lines)})" if lines[1:] else f"{LINES}[{lines[0]}]"
            before = f"{_METADATA}[{key}] + {newline} + {text} if {key} in {_METADATA} else {text}"
            writer.put(f"{_METADATA}[{key}] = {before}")
        tags = writer.constant("Metadata")
        fitted = f"{writer.constant(fitting)}({_METADATA})"
        writer.put(f"if {_METADATA}: {_TAGS}[{tags}] = {fitted}")

    def _entry(self, ground: Ground, key: str, rule: Rule) -> None:
        found = self._values.rule(ground, rule)
        if found.said is not None:
            if found.said:
                said = "" if found.said == NULL else found.said
                self._writer.put(f"{_METADATA}[{key}] = {self._writer.constant(said)}")
            return
        name = found.name
        value = f"'' if {name} == {self._null} else {name}" if found.nullable else name
        self._writer.put(f"if {name}: {_METADATA}[{key}] = {value}")

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
            for text in (key, value):
                said = (
                    text.said not in ("", NULL)
                    if text.said is not None
                    else self._values.is_said(text)
                )
                if said is not True:
                    writer.put(f"if not ({said}): continue")
            name = writer.let(writer.of(key))
            count = f"{writer.constant(numbered)}({name}, {_METADATA}, {numbers})"
            writer.put(f"if {name} in {_METADATA}: {name} = {count}")
            writer.put(f"{_METADATA}[{name}] = {writer.of(value)}")
