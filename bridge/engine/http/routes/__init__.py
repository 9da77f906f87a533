"""The routes, one file a chapter of the interface document; three lines each, no rule."""
