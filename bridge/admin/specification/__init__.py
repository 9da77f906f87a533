"""Partner specification: what a listener accepts or a destination sends, as a document."""
