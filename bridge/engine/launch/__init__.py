"""What a launch asks for, checked and decoded, before anything is stored. No database."""
