"""Each message of the benchmarks' mixed set becomes the orders that the set lists for it."""

from tests.acceptance.house import House
from tests.acceptance.wire import Sender, verdict
from tests.benchmarks.mixed import FS_CR, RICH, VT, Template, mixed, template

NAMES = {
    "01-de-orm-ct-thorax": "Müller-Lüdenscheidt^Jürgen^Karl-Heinz^Prof. Dr.",
    "02-fr-omi-irm-genou": "DE LA FONTAINE^Hélène^Chloé Zoë^Mme",
    "03-jp-omi-ct-abdomen": "=山田^花子=ヤマダ^ハナコ",
    "04-ru-orm-mrt": "Щербакова^Людмила^Андреевна",
    "05-cz-orm-mammografie": "Dvořáčková^Žofie^Ludmila^Ing.",
    "06-pl-omg-tk-jamy-brzusznej": "Wiśniewska-Żółć^Małgorzata^Grażyna^dr inż.",
    "07-es-orm-cuatro-grupos": "Muñoz y Peñalver^María de los Ángeles^Concepción^Dña.",
    "08-se-orm-z-segment": "Åkerström^Göran^Örjan",
    "09-us-omi-long-notes": "O'CONNOR-PEÑA^SHAWNA^RENÉE",
    "10-gr-omg-two-groups": "Παπαδοπούλου^Ευαγγελία^Κωνσταντίνα",
}
FIRST = 7_000_000


def send(house: House, templates: list[Template], first: int) -> None:
    """Send each template with its own number, and wait until all orders are applied."""
    with Sender(house.mllp_port) as sender:
        for number, item in enumerate(templates, first):
            control_id, frame = item.frame(number)
            sender.post(frame.removeprefix(VT).removesuffix(FS_CR))
            assert verdict(sender.reply() or b"") == ("AA", control_id.decode()), item.name
    house.settle()


def listed(house: House) -> dict[str, dict[str, str]]:
    return {
        f"{order['PatientMRN']} {order['Accession']}": order
        for row in house.worklist()
        for order in row["orders"]
    }


def test_mixed_set(running: House) -> None:
    """Every message becomes its orders and no other; the senders take turns."""
    templates = mixed()

    send(running, templates, FIRST)

    expected = {
        f"M{number} {accession}"
        for number, item in enumerate(templates, FIRST)
        for accession in item.orders(number)
    }
    patients = tuple(f"M{number} " for number in range(FIRST, FIRST + len(templates)))
    assert {key for key in listed(running) if key.startswith(patients)} == expected
    assert len({sent.frame(n)[1].split(b"|")[2] for n, sent in enumerate(templates)}) > 4


def test_rich_samples(running: House) -> None:
    """Each rich sample has 1 to 8 kB, and its patient's name is read in its own character set."""
    files = sorted(RICH.glob("*.hl7"))
    first = FIRST + 1000

    send(running, [template(file.stem, file.read_bytes()) for file in files], first)

    found = listed(running)
    names = {
        file.stem: found[f"M{number} A{number}.1"]["PatientName"]
        for number, file in enumerate(files, first)
    }
    assert names == NAMES
    assert all(1000 <= file.stat().st_size <= 8000 for file in files)
