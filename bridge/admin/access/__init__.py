"""Access to the console: roles, the grants of accounts, and their administration."""
