"""
What the internal engine takes, and for how long it gives: rates, sizes, lifetimes.

Session links are not here: the interface document gives them five minutes.
"""

from pydantic import Field

from config.quantities import Bytes, Seconds
from config.sections import Section


class Rates(Section):
    """
    Requests in a minute that one access token may make; the service token may always.

    Hospitals launch for all readers with the token of one administrator, so the limits are high.
    """

    reads: int = Field(6000, ge=0, description="a minute and token; 0: no limit, as below")
    launches: int = Field(1200, ge=0, description="launch and init")
    exports: int = Field(600, ge=0, description="exported documents")
    failed_authentications: int = Field(
        20, ge=0, description="in 15 minutes from one address, but for loopback"
    )


class Sizes(Section):
    """How much one request may bring; more is refused with 413 or 400."""

    body: Bytes = Field(64 * 2**20, ge=2**10, description="the whole request")
    structured_reports: int = Field(20, ge=1, description="dicomSR files")
    structured_report: Bytes = Field(10 * 2**20, ge=1, description="one of them, decoded")
    key_images: int = Field(50, ge=1, description="key images of a launch")
    key_image: Bytes = Field(10 * 2**20, ge=1, description="one of them, decoded")
    key_image_pixels: int = Field(40_000_000, ge=1, description="pixels of one of them")
    key_findings: int = Field(
        100_000, ge=1, description="characters; also of Notes and ReasonForExam"
    )
    metadata: Bytes = Field(64 * 2**10, ge=2, description="Metadata of an order")
    metadata_depth: int = Field(8, ge=1, le=60, description="levels of nesting in Metadata")
    status_list: int = Field(500, ge=500, description="orders of one status query")
    link_list: int = Field(50, ge=2, description="orders to link or unlink at once")
    batch: int = Field(500, ge=100, description="launches of one batch")


class Lifetimes(Section):
    """How long links and sessions are good; a site may choose its own."""

    frame_link: Seconds = Field(12 * 3600.0, ge=60, description="a link that acts as its user")
    enrolment_link: Seconds = Field(
        72 * 3600.0, ge=60, description="a one-time link to set a password"
    )
    login_link: Seconds = Field(90 * 86400.0, ge=60, description="a link that asks to sign in")
    session: Seconds = Field(12 * 3600.0, ge=300, description="from its beginning")
    session_idle: Seconds = Field(30 * 60.0, ge=300, le=480 * 60, description="without activity")
