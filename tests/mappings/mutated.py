"""Random messages: samples and shapes with random changes of their bytes."""

from hypothesis import strategies as st

from tests.corpus import CORPUS
from tests.mappings.results import SAMPLES

PIECES = [b"|", b"^", b"~", b"\\", b"&", b"\r", b"\n", b'""', b"\x00", b"\xff", b"ORC|", b"OBR|1|"]
PIECES += [b"\\T\\", b"\\.br\\", b"  ", b"CT", b"^^", b"~~", b"OBX|1|TX|A^B||x~y\r", b"ZDS|1.2.3"]
ORDERS = sorted((SAMPLES / "orders").glob("*.hl7")) + sorted((SAMPLES / "quirks").rglob("*.hl7"))
RAW = [path.read_bytes()[:4000] for path in [*CORPUS, *ORDERS]]


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    raw = draw(st.sampled_from(RAW))
    for _ in range(draw(st.integers(0, 5))):
        start = draw(st.integers(0, len(raw)))
        end = min(len(raw), start + draw(st.integers(0, 40)))
        middle = draw(st.sampled_from([*PIECES, b"", raw[start:end] * 2]) | st.binary(max_size=6))
        raw = raw[:start] + middle + raw[end:]
    return raw
