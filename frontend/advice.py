"""What to write instead of the constructs that a traced program cannot hold."""

from __future__ import annotations

_INSTEAD = {
    "break": "every turn runs; shorten the range, or keep the old value with `x if m else y`",
    "continue": "every turn runs; keep the old value with `x if m else y`",
    "return": "all of it is recorded; assign the value to a name and return it at the end",
    "yield": "Python runs the body once, to record it; collect the values after it",
    "await": "Python runs the body once, to record it; await before it",
    "while": (
        "its condition has to compare indices already before the first turn, as with `n = p.int(0)`; or "
        "write `for k in range(...)`"
    ),
    "assert": "it is known at run time only; assert shapes and constants",
    "match": "it is known at run time only; compare, and choose with `x if m else y`",
    "if": "name the values first, then choose with `x if m else y`",
    "and": "name the values first, then combine the masks",
    "or": "name the values first, then combine the masks",
}
_UNROLL = "loop over tile.unroll(...), whose body Python runs once a turn"

IF_MASK = (
    "`if` on a mask of data: each element has its own answer; write `x if mask else y`, or "
    "mask.select(x, y)"
)
STORE = (
    "storing an item of a Python object inside a device loop or branch, whose body Python runs once, to "
    f"record it; give the value to a name, or {_UNROLL}"
)
WHILE_MASK = (
    "`while` on a mask of data: each element has its own answer, and the loop ends for all; compare "
    "indices (of what the program stored in a tensor In.index makes one), or loop over a range and keep the "
    "old value with `x if m else y`"
)
INPUT = (
    "an input is not written; C = p.write(tensor, block) names the same tensor to store in, C[i, j] = tile"
)
WALRUS = "`:=` in the condition of a device loop, which is asked again and again: bind the name in the loop"
IF_INDEX = "`if` on an index: compare it, as in `if n != 0:`"


def inside(word: str, what: str) -> str:
    """The error for a construct inside a device loop or branch; ``what`` is "loop" or "branch".

    ``word`` is a keyword, ``name x`` for a name that is bound only inside, ``closure x f`` for a
    function from outside that reads a name assigned inside, or how a host object changes.
    """
    first, _, rest = word.partition(" ")
    if first == "name":
        return f"`{rest}` is first given a value inside a device {what} and read after it; give it one before"
    if first == "closure":
        name, _, function = rest.partition(" ")
        return (
            f"{function} reads `{name}`, which the device {what} assigns, from outside the {what}; "
            f"give it `{name}` as an argument"
        )
    if word in _INSTEAD:
        advice = _INSTEAD[word]
        if what == "loop":
            advice += f", or {_UNROLL}"
        return f"`{word}` inside a device {what}: {advice}"
    if what == "loop":
        return (
            f"{word} inside a device loop changes a Python object, but Python runs the loop's body once, to "
            f"record it; {_UNROLL}"
        )
    return (
        f"{word} inside a device branch changes a Python object, but both ways are recorded; "
        "give the value to a name that both ways assign"
    )


def on_device(word: str) -> str:
    """The error for a construct that needs a host value."""
    return f"`{word}` on a value of the program: {_INSTEAD[word]}"
