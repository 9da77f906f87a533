"""Orders of the tests of DICOM, and what the bridge has made of messages."""

from functools import cache

from bridge.intake.receive.listener_policy import ListenerPolicy
from bridge.queue.log_tables import pull_new
from mappings.compiler import DEFINITIONS, compile_sources, read_folder
from mappings.inbound.definition import InboundMapping
from tests.bridge.delivery.fixtures import SITE
from tests.bridge.delivery.whole_bridge import Hospital
from tests.bridge.intake.messages import order_group, order_message

AWAITING = """
include: orders.yaml
order_control:
  actions: {NW: await}
"""


@cache
def awaiting() -> InboundMapping:
    """A definition whose orders wait for their examination."""
    sources = {**read_folder(DEFINITIONS), "site-orders.yaml": AWAITING}
    compiled = compile_sources(sources, "site-orders")
    assert isinstance(compiled, InboundMapping)
    return compiled


def await_examinations(hospital: Hospital) -> None:
    hospital.use(ListenerPolicy("ris", (awaiting(),), site=SITE))


def new_order(number: int = 1, control: str = "NW", mrn: str = "M1") -> bytes:
    group = order_group(control, f"P{number}", f"F{number}", accession=f"A{number}")
    return order_message(group, sent=number, mrn=mrn)


async def applied(hospital: Hospital) -> None:
    """Wait until everything that was received is applied."""
    pull_new(hospital.database)
    hospital.worker.notify()
    await hospital.applied()


def received_messages(hospital: Hospital) -> list[tuple[str, str, str]]:
    """Return type, state and code of what modalities sent."""
    return hospital.rows(
        "SELECT message_type, state, code FROM message WHERE listener = 'dicom' ORDER BY id"
    )


def order_states(hospital: Hospital) -> list[str]:
    return [state for (state,) in hospital.rows("SELECT state FROM bridge_order ORDER BY id")]


def exceptions(hospital: Hospital) -> list[str]:
    return [code for (code,) in hospital.rows("SELECT code FROM exception ORDER BY row_id")]
