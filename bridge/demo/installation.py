"""The settings of the demonstration: two senders with different charsets, one receiver."""

from dataclasses import dataclass
from string import Template
from typing import Final

from bridge.demo.service import HOST

SITE: Final = "SITE1"
SIGN_DELAY: Final = 3
"""Seconds in which a signature can be recalled."""
USER, USER_NAME = "ada@example.org", "Ada Reader"
OPERATOR, OPERATOR_NAME = "mara@example.org", "Mara Keeper"
"""The system administrator of the console."""

_SETTINGS: Final = Template("""\
# The home of the demonstration.
[http]
bind = "$host:$web"
public_url = "http://$host:$web"

[sign_in]
second_factor = "optional"  # required in production

[[listener]]
name = "ris-a"
bind = "$host:$ris_a"
site = "$site"
time_zone = "Europe/Zurich"

[[listener]]
name = "his-b"
bind = "$host:$his_b"
site = "$site"
time_zone = "Europe/Zurich"
charset = "iso8859-1"

[[destination]]
name = "ris-results"
address = "$host:$results"
events = ["preliminary", "final", "addendum"]
time_zone = "Europe/Zurich"
retry_first = "200ms"
retry_max = "2s"
""")


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of the demonstration, on the loopback address."""

    web: int
    ris_a: int
    his_b: int
    results: int

    @property
    def address(self) -> str:
        """The web address."""
        return f"http://{HOST}:{self.web}"


def settings(ports: Ports) -> str:
    """Return the text of bridge.toml."""
    return _SETTINGS.substitute(
        host=HOST,
        site=SITE,
        web=ports.web,
        ris_a=ports.ris_a,
        his_b=ports.his_b,
        results=ports.results,
    )
