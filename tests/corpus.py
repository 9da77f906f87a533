"""
Messages of every shape that senders in the field use.

`sample_messages/shapes` has an invented message of each shape. A folder `shared/corpus` beside the
clone may have real messages; the tests then run on them too.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHAPES = sorted((ROOT / "sample_messages" / "shapes").glob("*.hl7"))
REAL_MESSAGES = sorted((ROOT.parent / "shared" / "corpus").glob("*.hl7"))
CORPUS = [*SHAPES, *REAL_MESSAGES]
