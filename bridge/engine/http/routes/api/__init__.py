"""Routes of the interface document, one file for each chapter."""
