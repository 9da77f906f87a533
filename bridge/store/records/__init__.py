"""Records that intake, delivery and the console share: orders, patients, visits, mapping versions,
exceptions.
"""
