"""What the console's authors of definitions work with, joined with the rest."""
