"""The kernel IR: what one thread of a GPU does, for every GPU target."""
