"""
Records shared by intake, delivery and the console: orders, patients, visits, exceptions, mapping
versions.
"""
