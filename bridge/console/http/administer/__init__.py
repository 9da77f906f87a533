"""Routes about accounts, sites and the audit trail."""
