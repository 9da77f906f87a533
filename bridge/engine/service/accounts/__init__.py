"""Accounts: users, sessions, tokens, credentials, audit trail."""
