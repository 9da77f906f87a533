"""
Fuzzing: `python -m tests.fuzz SECONDS [TARGET]`; all targets share the seconds, one after another.

Each runs under atheris in its own process, with 2 GB of memory and a minute for one input.
Exits with 1 if one failed; the printed folder has its input.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz.targets import DICTIONARY, TARGETS, seeds

ROOT = Path(__file__).resolve().parents[2]
LIMITS = [
    "-timeout=60",
    "-rss_limit_mb=2048",
    "-max_len=4096",
    "-print_final_stats=1",
    "-verbosity=0",
]


def fuzz(name: str, seconds: int, folder: Path) -> int:
    """Fuzz a target with its own corpus; return the exit status."""
    corpus = folder / name
    corpus.mkdir(parents=True)
    for number, seed in enumerate(seeds()):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = folder / "dictionary"
    words.write_text("".join(f'"{quoted(word)}"\n' for word in DICTIONARY), "ascii")
    command = [
        sys.executable, "-m", "tests.fuzz.coverage_guided", name, str(corpus), *LIMITS,
        f"-max_total_time={seconds}", f"-dict={words}", f"-artifact_prefix={folder}/{name}-",
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def quoted(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def main(seconds: int, names: list[str]) -> int:
    """Fuzz targets, each for its share; return the exit status."""
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    share = max(1, seconds // len(names))
    failed = [name for name in names if fuzz(name, share, folder)]
    if failed:
        sys.stdout.write(f"failed: {failed}; the inputs are in {folder}\n")
    else:
        sys.stdout.write(f"{len(names)} targets, {share} s each: nothing found\n")
        shutil.rmtree(folder)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:] or list(TARGETS)))
