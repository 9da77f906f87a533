"""Patient identity: merges, demographics, visits, and orders that belong to another patient."""
