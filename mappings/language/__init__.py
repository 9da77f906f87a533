"""The mapping language: rules, conditions, transforms, code tables, and the diagnostics of
definition files.
"""
