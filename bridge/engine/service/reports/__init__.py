"""Reports and their orders: linking, files, patients, export, deletion, sharing."""
