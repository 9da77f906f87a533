"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Home = Annotated[Path, typer.Option("--home", metavar="HOME", help="The home folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")]
