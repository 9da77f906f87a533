"""The reporting app: its built files, and the controls that a page shows."""
