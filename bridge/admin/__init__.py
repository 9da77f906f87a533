"""
Use cases of operators, called by commands and console alike.

Commands are audited here, console routes by their guard.
"""
