"""
Request bodies of the interface document, from our values.

Pure. Members that are at their default are left out: a strict service may know fewer.
"""

from collections.abc import Sequence
from typing import Any

from bridge.engine_client.models import Launch, OrderKey, UserInfo


def launch_body(launch: Launch) -> dict[str, Any]:
    """Build the body of `POST /api/report/launch/clinical`."""
    body: dict[str, Any] = {
        "clinicalInfo": dict(launch.clinical_info),
        "reportingApp": dict(launch.reporting_app),
        "response": {"type": launch.response_type},
    }
    if launch.qr_code is not None:
        body["response"]["qrCodeOptions"] = {
            "size": launch.qr_code.size,
            "mode": launch.qr_code.mode,
        }
    if launch.user is not None:
        body["userInfo"] = _user(launch.user)
    if launch.dicom_sr:
        body["dicomSR"] = [{"fileData": each} for each in launch.dicom_sr]
    if launch.key_images:
        body["keyImages"] = [
            {"imageData": each.image_data, "contentType": each.content_type}
            | ({"fileName": each.file_name} if each.file_name else {})
            for each in launch.key_images
        ]
    return body | {
        name: True
        for name, wanted in (
            ("lazyLaunch", launch.lazy),
            ("registerOrder", launch.register_order),
            ("forceUpdatePatientName", launch.force_update_patient_name),
        )
        if wanted
    }


def _user(user: UserInfo) -> dict[str, Any]:
    body: dict[str, Any] = {"UserEmail": user.email, "UserName": user.name}
    if user.auth:
        body["Auth"] = user.auth
    if user.force_ownership_transfer:
        body["forceOwnershipTransfer"] = True
    return body


def one_report(order: OrderKey, **options: Any) -> dict[str, Any]:
    """Build the body of a single-report endpoint; options that are None are left out."""
    return {"clinicalInfo": order.tags()} | given(**options)


def several_orders(site: str, orders: Sequence[OrderKey]) -> dict[str, Any]:
    """Build the body of link-orders and unlink-orders: the site once, the orders in order."""
    return {
        "SiteID": site,
        "clinicalInfo": [{"PatientMRN": each.mrn, "Accession": each.accession} for each in orders],
    }


def given(**options: Any) -> dict[str, Any]:
    """Keep the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
