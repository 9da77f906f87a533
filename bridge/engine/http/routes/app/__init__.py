"""Routes of the reporting app: its pages, the report page, and the account of the user."""
