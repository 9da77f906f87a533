"""The mapping language: rules, conditions, transforms, code tables, hooks, and diagnostics."""
