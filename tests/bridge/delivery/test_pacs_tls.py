"""TLS to a PACS, over DIMSE and over DICOMweb: DCMTK, Orthanc, pynetdicom."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bridge.delivery.destination_settings import make_sender
from bridge.delivery.dicom_replies import statuses_of
from bridge.executors import close_all
from config import Settings
from config.sections import DestinationSettings
from mllp.errors import NotConnected, ReplyLost
from tests.bridge.delivery.pacs import orthanc, pacs, storescp
from tests.bridge.delivery.test_dicom_objects import written
from tests.mllp.certificates import Certificates
from tests.programs import DCMTK, ORTHANC

pytestmark = pytest.mark.anyio
PAYLOAD = written()
STORED = ["0000", "0000"]


@pytest.fixture(autouse=True)
def pools() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("home"))


async def send(certificates: Certificates, address: str, **tls: str) -> list[str]:
    """Send a report as a destination with these settings; return the statuses."""
    values = {"name": "pacs", "address": address, "ack_timeout": "10s", "connect_timeout": "5s"}
    section = DestinationSettings.model_validate({**values, **({"tls": tls} if tls else {})})
    sender = make_sender(Settings(home=certificates.folder), section, None)
    reply: bytes = await sender.send(PAYLOAD).asFuture(asyncio.get_running_loop())
    return statuses_of(reply)


def server_context(certificates: Certificates, *, is_expired: bool = False) -> ssl.SSLContext:
    """Return the context of a server that requires the certificate of its peer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if is_expired:
        ended = datetime(2020, 1, 1, tzinfo=UTC)
        certificates.authority.issue_cert("127.0.0.1", not_after=ended).configure_cert(context)
    else:
        context.load_cert_chain(certificates.certificate, certificates.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificates.ca)
    return context


@contextmanager
def tls_pacs(certificates: Certificates, *, is_expired: bool = False) -> Iterator[str]:
    """A PACS that requires the certificate of its peer, and gets nothing; yields its address."""
    with pacs(tls=server_context(certificates, is_expired=is_expired)) as archive:
        yield f"dicom://PACS@127.0.0.1:{archive.port}"
    assert archive.stored == []


def stored(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.needs(DCMTK)
async def test_dcmtk(certificates: Certificates, tmp_path: Path) -> None:
    """Storescp requires a certificate, and stores both objects."""
    own = ("+tls", certificates.key, certificates.certificate, "+cf", certificates.ca)
    with storescp(tmp_path, *own) as port:
        address = f"dicom://PACS@127.0.0.1:{port}"
        tls = {"ca": certificates.ca, **certificates.client}
        assert await send(certificates, address, **tls) == STORED
    assert len(stored(tmp_path)) == 2


@asynccontextmanager
async def https_proxy(certificates: Certificates, port: int) -> AsyncIterator[str]:
    """An HTTPS proxy before a server at a port, as hospitals have it; yields its address."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(2**16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, back), copy(there, writer))

    context = server_context(certificates)
    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=context)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.needs(ORTHANC)
async def test_orthanc(certificates: Certificates, tmp_path: Path) -> None:
    """Orthanc requires a certificate, and gets nothing from a peer that does not trust it."""
    mutual = {"ca": certificates.ca, **certificates.client}
    with orthanc(tmp_path, certificates=certificates) as archive:
        address = f"dicom://PACS@127.0.0.1:{archive.dicom_port}"
        for changes in ({"ca": certificates.untrusted_ca}, {"server_name": "other.example"}):
            with pytest.raises(NotConnected) as failed:
                await send(certificates, address, **{**mutual, **changes})
            assert failed.value.is_tls
        with pytest.raises(NotConnected):
            await send(certificates, address, ca=certificates.ca)
        assert archive.instances() == []
        assert await send(certificates, address, **mutual) == STORED
        assert len(archive.instances()) == 2


@pytest.mark.needs(ORTHANC)
async def test_dicomweb(certificates: Certificates, tmp_path: Path) -> None:
    """The same for STOW-RS."""
    mutual = {"ca": certificates.ca, **certificates.client}
    with orthanc(tmp_path) as archive:
        async with https_proxy(certificates, archive.http.base_url.port or 0) as url:
            address = f"dicomweb+{url}/dicom-web"
            for changes in ({"ca": certificates.untrusted_ca}, {"server_name": "other.example"}):
                with pytest.raises(NotConnected) as failed:
                    await send(certificates, address, **{**mutual, **changes})
                assert failed.value.is_tls
            with pytest.raises((NotConnected, ReplyLost)):
                await send(certificates, address, ca=certificates.ca)
            assert archive.instances() == []
            assert await send(certificates, address, **mutual) == STORED
        assert len(archive.instances()) == 2


async def test_an_unknown_authority(certificates: Certificates) -> None:
    with tls_pacs(certificates) as address, pytest.raises(NotConnected, match="authority"):
        await send(certificates, address, ca=certificates.untrusted_ca, **certificates.client)


async def test_another_name(certificates: Certificates) -> None:
    tls = {"ca": certificates.ca, "server_name": "other.example", **certificates.client}
    with tls_pacs(certificates) as address, pytest.raises(NotConnected, match="name"):
        await send(certificates, address, **tls)


async def test_an_expired_certificate(certificates: Certificates) -> None:
    with (
        tls_pacs(certificates, is_expired=True) as address,
        pytest.raises(NotConnected, match="expired"),
    ):
        await send(certificates, address, ca=certificates.ca, **certificates.client)


async def test_a_certificate_that_the_pacs_requires(certificates: Certificates) -> None:
    """TLS 1.3 refuses it after our side of the handshake; the reason is found nevertheless."""
    with tls_pacs(certificates) as address, pytest.raises(NotConnected, match="certificate"):
        await send(certificates, address, ca=certificates.ca)


async def test_a_pacs_without_tls(certificates: Certificates) -> None:
    """Nothing is sent in the clear if the destination has TLS."""
    with pacs() as archive, pytest.raises(NotConnected, match="plain text"):
        await send(certificates, f"dicom://PACS@127.0.0.1:{archive.port}", ca=certificates.ca)
    assert archive.stored == []


async def test_a_destination_without_tls(certificates: Certificates) -> None:
    with tls_pacs(certificates) as address, pytest.raises(NotConnected, match="no association"):
        await send(certificates, address)
