"""Sites and their settings: preferences, templates, macros, prelim groups, billing codes."""
