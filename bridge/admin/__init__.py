"""
Use cases of operators, which the commands and the console share.

This package audits commands. `bridge.console.http.guard` audits the routes of the console.
"""
