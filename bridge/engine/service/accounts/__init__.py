"""Accounts: users, sessions, access tokens, credentials and the audit trail."""
