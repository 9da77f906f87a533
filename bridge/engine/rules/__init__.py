"""
Rules of the report engine: tables and pure functions without database, clock and framework.

The tables of the interface reference are tables here; the services look them up.
"""
