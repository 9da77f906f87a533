"""
Notifications: send notices to operators by e-mail and by a POST to a webhook. Blocking.

All new notices are sent in one message.
"""

import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import localtime, make_msgid
from typing import Any

import httpx

from bridge.monitoring.alerts import AlertNotice

TIMEOUT = 15.0  # seconds


@dataclass(frozen=True, slots=True)
class MailServer:
    """The mail server and the addresses; `security` is `none`, `starttls` or `tls`."""

    host: str
    port: int
    sender: str
    to: tuple[str, ...]
    security: str = "starttls"
    user: str = ""
    password: str = ""
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookTarget:
    """The URL of a webhook; `authorization` is the value of the Authorization header."""

    url: str
    authorization: str = ""


def send_mail(mail: MailServer, system: str, notices: Sequence[AlertNotice]) -> None:
    """Send one mail. Raises OSError, which includes smtplib's errors."""
    message = EmailMessage()
    first = notices[0]
    more = f" (+{len(notices) - 1})" if len(notices) > 1 else ""
    message["Subject"] = f"[{system}] {first.news}: {first.condition.text}{more}"
    message["From"], message["To"] = mail.sender, ", ".join(mail.to)
    message["Date"] = localtime()  # relays need not add it (RFC 5322 §3.6)
    message["Message-ID"] = make_msgid(domain=mail.sender.rpartition("@")[2])
    message.set_content("\n".join(map(notice_line, notices)) + "\n")
    context = ssl.create_default_context(cafile=mail.ca)
    if mail.security == "tls":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(
            mail.host, mail.port, timeout=TIMEOUT, context=context
        )
    else:
        smtp = smtplib.SMTP(mail.host, mail.port, timeout=TIMEOUT)
    with smtp:
        if mail.security == "starttls":
            smtp.starttls(context=context)
        if mail.user:
            smtp.login(mail.user, mail.password)
        smtp.send_message(message)


def call_webhook(hook: WebhookTarget, system: str, notices: Sequence[AlertNotice]) -> None:
    """Post all notices as one JSON document. Raises httpx.HTTPError."""
    headers = {"authorization": hook.authorization} if hook.authorization else {}
    body = {"system": system, "alerts": [notice_json(each) for each in notices]}
    httpx.post(hook.url, json=body, headers=headers, timeout=TIMEOUT).raise_for_status()


def notice_json(notice: AlertNotice) -> dict[str, Any]:
    """Return a notice as JSON."""
    return {
        "news": notice.news.value,
        "key": notice.condition.key,
        "severity": notice.condition.severity.value,
        "text": notice.condition.text,
        "since": _moment(notice.raised_at),
    }


def notice_line(notice: AlertNotice) -> str:
    """Return a notice as a line of text."""
    condition = notice.condition
    since = _moment(notice.raised_at)
    return f"{notice.news:<8}  {condition.severity:<8}  {condition.text}  (since {since})"


def _moment(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")
