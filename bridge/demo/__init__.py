"""`make demo`: the whole story over real sockets, told as it happens."""
