"""
The engine's rules: tables and pure functions, no database, no clock, no framework.

What the interface document lays down as tables stands here as tables; the services look them up.
"""
