"""Use cases of operators, called by commands and console; each one is audited here."""
