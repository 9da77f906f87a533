"""Reports and their orders: link, files, patients, export, deletion, sharing."""
