"""Planning: where each tile lives, how it is moved, and why."""
