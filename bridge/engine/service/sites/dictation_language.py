"""In which language a user dictates: as the launch, the pre-warm, the user or the site says."""

from bridge.engine.launch.languages import first_language
from bridge.engine.service.accounts.sessions import BrowserSession
from bridge.engine.service.accounts.users import settings_of
from bridge.engine.service.report_lookup import lock_report_by_id
from bridge.engine.service.signing.lease import Editor
from bridge.engine.service.sites.preferences import preferences_of
from bridge.engine.service.work import Work


def speech_language(work: Work, editor: Editor, session: BrowserSession) -> str:
    """Return one of the 17 codes (interface document, Site and user settings)."""
    report = lock_report_by_id(work, session.report_id)
    own = settings_of(work.connection, report.site_id, editor.account_id).get("SpeechLanguage")
    site = preferences_of(work.connection, report.site_id).SpeechLanguage
    shown = session.details.get("app_language")
    warmed = session.languages.get("speech_language")
    wished = report.reporting.get("speech_language")
    return first_language([str(each or "") for each in (wished, warmed, own, site, shown)])
