"""Both ways of mapping a message, side by side; and messages to do it with."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mappings.compiler import DEFINITIONS, compile_sources, load
from mappings.errors import RuleFailed
from mappings.events import OrderEvent
from mappings.forms.form import sent
from mappings.hl7.message import Message
from mappings.hl7.refusals import Refusal
from mappings.inbound import InboundMapping
from mappings.orders import OrderPlan
from mappings.scope import Defaults
from tests.acceptance.orders import group_of, order
from tests.mappings.language import NOW, SHIPPED
from tests.mappings.recipes import FILES, INBOUND

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "mapping-guide.md").read_text(encoding="utf-8")
LONGEST = 6000  # bytes of a message that is damaged again and again

RICH = (
    order(2, group="G1", parent="P^F")
    + b"TQ1|1||||||20260101||S\rIPC|A1|RP|1.2.3|S|CT|||LOC|AET~B\r"
    + b"NTE|1||first~second\rNTE|2|L|x\\.br\\y\rDG1|1||A^B\rDG1|2|||text\r"
    + b"OBX|1|ST|WT^Weight||70|kg\rOBX|2|CE|A^Allergy||1^Latex~2^Iodine\rOBX|3|TX|TCM||moved\r"
)
"""An order that fills most of what the shipped definition asks for."""


def orders() -> InboundMapping:
    """The shipped definition, that has seen nothing yet."""
    found = load(DEFINITIONS, "orders")
    assert isinstance(found, InboundMapping)
    return found


def recipes() -> list[InboundMapping]:
    """Every recipe of the guide that maps orders."""
    texts = dict.fromkeys(re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL))
    made = [compile_sources({**SHIPPED, **FILES, "mine.yaml": text}, "mine") for text in texts]
    return [m for m in made if isinstance(m, InboundMapping) and isinstance(m.plan, OrderPlan)]


def samples() -> list[bytes]:
    """Orders: of the corpus, the samples, the recipes, and our own."""
    files = [
        *sorted((ROOT.parent / "shared" / "corpus").glob("*.hl7")),
        *sorted((ROOT / "sample_messages").rglob("*.hl7")),
    ]
    read = [each.read_bytes().replace(b"\r\n", b"\r").replace(b"\n", b"\r") for each in files]
    read += ["\r".join(segments).encode() for segments, _ in INBOUND.values()]
    read += [RICH, order(3) + group_of(4).encode(), order(5, study="-") + group_of(6).encode()]
    return [raw for raw in read if b"\rORC" in raw and len(raw) < LONGEST]


def outcome(apply: Callable[[Defaults], Sequence[OrderEvent]]) -> Any:
    """What comes of a message, to the order of its keys; or why nothing does. And missed codes."""
    defaults = Defaults("SITE1", "Europe/Zurich", NOW, [])
    try:
        events = apply(defaults)
    except (Refusal, RuleFailed) as refusal:
        return type(refusal), str(refusal), getattr(refusal, "place", ""), defaults.missed
    tags = [list(each.clinical_info.items()) for each in events]
    metadata = [list(each.clinical_info.get("Metadata", {}).items()) for each in events]
    return list(events), tags, metadata, defaults.missed


def by_rules(mapping: InboundMapping, raw: bytes, fallback: str = "utf-8") -> Any:
    """What the rules make of a message."""
    return outcome(lambda given: mapping.apply(Message.parse(raw, fallback=fallback), given))


def by_form(mapping: InboundMapping, raw: bytes, fallback: str = "utf-8") -> Any:
    """What comes of a message as the bridge reads it."""
    return outcome(lambda given: mapping.read(raw, fallback, given))


def is_written(mapping: InboundMapping, raw: bytes, fallback: str = "utf-8") -> bool:
    """Whether written code answers for a message."""
    assert mapping.specialist is not None
    form = sent(raw, fallback)
    given = Defaults("SITE1", "Europe/Zurich", NOW)
    return form is not None and mapping.specialist.events(form, given) is not None


def readily(mapping: InboundMapping, raw: bytes, fallback: str = "utf-8") -> Any:
    """What comes of a message where it may take no time; None where it might."""
    given = Defaults("SITE1", "Europe/Zurich", NOW)
    if mapping.readily(raw, fallback, given) is None:
        return None
    return outcome(lambda given: mapping.readily(raw, fallback, given) or [])
