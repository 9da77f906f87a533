"""Code for the events of a form: tags, Metadata, links, and what else an order is told with."""

from collections.abc import Sequence

from mappings.events import CHILD_OF, Action, LinkSignal, OrderEvent
from mappings.fetch import NULL
from mappings.forms.fields import DEFAULTS
from mappings.forms.ground import Ground
from mappings.forms.kept import Kept
from mappings.forms.metadata import Metadata, lines_of
from mappings.forms.said import draft
from mappings.forms.values import GIVE_UP, Values
from mappings.forms.writer import Text, Unwritable, Writer
from mappings.gathering import Rule
from mappings.links import Standing
from mappings.orders import PARENTS, SWITCHES, OrderPlan
from mappings.tags import LONGEST, NEVER_DELETED, TagRule, shortened

_TAGS, _APP, _SIGNALS = "T", "A", "K"


class Events:
    """Writes the events of messages of one form."""

    def __init__(self, writer: Writer, values: Values, plan: OrderPlan, kept: Kept) -> None:
        self._writer, self._values, self._plan, self._kept = writer, values, plan, kept
        self._metadata = Metadata(writer, values, plan.metadata, kept)
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
        """Write the value of a tag, once; a null that deletes nothing is nothing."""
        found = self._tagged.get((ground.group, tag))
        if found is None:
            found = self._valued(ground, self._plan.tags[tag])
            self._tagged[ground.group, tag] = found
        return found

    def _valued(self, ground: Ground, rule: TagRule) -> Text:
        found = self._values.rule(ground, rule.rule)
        if rule.tag not in NEVER_DELETED:
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
        self._metadata.write(ground, _TAGS)
        app = plan.reporting_app
        self._fill(_APP, app, {tag: self._valued(ground, rule) for tag, rule in app.items()})
        for tag in sorted(SWITCHES & app.keys()):
            key = writer.constant(tag)
            writer.put(f"if {key} in {_APP}: {_APP}[{key}] = {_APP}[{key}].lower() == 'true'")
        if between:
            writer.put(f"{_SIGNALS} += {between}[{self._kept.number(ground.group)}]")
        self._parents(ground)
        return self._event_of(
            action=f"{decision}.action",
            site=f"{_TAGS}[{site}]",
            location=f"{_TAGS}.get({writer.constant('SiteLocation')}, '')",
            mrn=f"{_TAGS}[{writer.constant('PatientMRN')}]",
            accession=f"{_TAGS}[{writer.constant('Accession')}]",
            clinical_info=_TAGS,
            reporting_app=_APP,
            place=writer.constant(self._kept.places[ground.group]),
            link_signals=f"tuple({_SIGNALS})",
            placer=self._code(ground, "placer"),
            filler=self._code(ground, "filler"),
            echo=lines_of(self._kept.echo[ground.group]),
            order_control=self._code(ground, "control"),
            order_status=self._code(ground, "status"),
            examined=f"{decision}.examined",
        )

    def _made(self, kind: type, /, **values: str) -> str:
        """Write one frozen value: a draft with the same slots, that becomes what it is to be."""
        writer = self._writer
        name = writer.let(f"{writer.constant(draft(kind))}()")
        for field, value in values.items():
            writer.put(f"{name}.{field} = {value}")
        writer.put(f"{name}.__class__ = {writer.constant(kind)}")
        return name

    def _event_of(self, **values: str) -> str:
        """Write one event; what is not said of it has its default."""
        default = self._kept.defaults
        said = {name: values.get(name) or self._writer.constant(default[name]) for name in default}
        return self._made(OrderEvent, **said)

    def _ignored(self, ground: Ground) -> str:
        """Write the event of a group that orders no examination."""
        constant = self._writer.constant
        site = f"{self._writer.of(self._tag(ground, 'SiteID'))} or {DEFAULTS}.site"
        return self._event_of(
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
        with self._writer.under(f"if {said}:"):
            made = self._made(LinkSignal, kind=self._writer.constant(kind), value=name)
            self._writer.put(f"{_SIGNALS}.append({made})")

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
