"""Use cases of operators, called by the commands and by the console alike; each one is audited
here.
"""
