"""`make demo`: the whole product over real sockets, with each step checked and printed."""
