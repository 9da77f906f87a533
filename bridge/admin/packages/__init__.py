"""Interface packages: export and import a listener or destination with its mappings."""
