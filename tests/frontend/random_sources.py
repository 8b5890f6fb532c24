"""Random kernels in the person's own syntax, and what Python itself makes of them on plain numbers.

Every tile has one element, so that tiles behave as floats and indices as integers: the same text runs
as it is on numbers, and rewritten as a program.
"""

import random
import re


class Numbers:
    """Stands for the program where a kernel's text runs on plain numbers."""

    def __init__(self, data):
        self.data = data
        self.stored = {}

    def id(self, axis):
        return 0

    def read(self, tensor, block):
        return self

    def write(self, tensor, block):
        return self

    def blocks(self, axis):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index] if 0 <= index < len(self.data) else 0.0

    def __setitem__(self, index, value):
        if 0 <= index < len(self.data):
            self.stored[index] = float(value)


class Writer:
    """Writes one random kernel."""

    def __init__(self, seed, *, loose=False, unknown=False, wild=False):
        self.random = random.Random(seed)
        self.loose = loose
        self.unknown = unknown
        self.wild = wild
        self.lines = []
        self.tiles = ["a", "b", "c"]
        self.indices = ["i", "j", "n"]
        self.functions = []
        self.count = 0
        self.budget = 28

    def source(self):
        """The text of a kernel ``kernel(p, x, y, n)``, with a helper before it."""
        self.helper()
        head = [
            "X, Y = p.read(x, [1]), p.write(y, [1])",
            "i, j = p.id(0), X.blocks(0) - 6",
            "a, b, c = X[0], X[1], X[i + 2]",
        ]
        kernel = "def kernel(p, x, y, n, *, FLAG=True, SIZE=3):"
        if self.unknown:  # the same in a function whose arguments may be anything
            arguments = "X, Y, i, j, n, a, b, c, FLAG, SIZE"
            for depth, text in ((0, kernel), *((1, each) for each in head)):
                self.line(depth, text)
            self.line(1, f"inside({arguments})")
            self.line(0, f"def inside({arguments}):")
        else:
            for depth, text in ((0, kernel), *((1, each) for each in head)):
                self.line(depth, text)
        self.block(1, 0, in_unrolled=False, on_device=False)
        self.line(1, "Y[0] = a")
        self.line(1, "Y[1] = b")
        self.line(1, "Y[2] = c")
        self.line(1, "Y[3] = X[0] * 0 + i + j * 10")
        return "\n".join(self.lines) + "\n"

    def line(self, depth, text):
        self.lines.append("    " * depth + text)

    def helper(self):
        """A helper of unknown arguments."""
        pick = self.random.choice
        self.line(0, "def helper(x, y, flag=True):")
        if pick([True, False]):
            self.line(1, "if not flag:")
            self.line(2, "return y")
        loop = pick(["for k in range(2):", "for k in tile.unroll(2):", "if flag and True:"])
        self.line(1, loop)
        inner = pick(["x = x + y", "x, y = y, x + 1", "x = x if x < y else y", "x = max(x, y) - 1"])
        self.line(2, inner)
        self.line(1, f"return {pick(['x', 'min(x, y)', 'x if not x > 3 else y', 'x - y'])}")

    # Expressions

    def tile(self, depth=0):
        pick = self.random.choice
        if depth > 2 or self.random.random() < 0.3:
            return pick([*self.tiles, *self.tiles, f"X[{self.index(2)}]", "1.0", "2"])
        a, b = self.tile(depth + 1), self.tile(depth + 1)
        choices = [
            f"{a} + {b}",
            f"{a} - ({b})",
            f"-({a})",
            f"min({a}, {b})",
            f"max({a}, {b}, 1)",
            f"abs({self.pick_tile()})",
            f"({a} if {self.mask()} else {b})",
            f"helper({self.pick_tile()}, {b})",
            f"helper({self.pick_tile()}, {self.pick_tile()}, FLAG and SIZE > {pick([2, 4])})",
            f"(lambda t: t + {a})({self.pick_tile()})",
            f"sum([t + k for k, t in enumerate([{self.pick_tile()}, b])], {self.pick_tile()})",
            f"{self.pick_tile()} + {self.index(1)}",
        ]
        choices += [f"{name}({self.pick_tile()})" for name in self.functions] * 3
        return pick(choices)

    def pick_tile(self):
        return self.random.choice(self.tiles)

    def mask(self):
        pick = self.random.choice
        a, b, c = self.pick_tile(), self.pick_tile(), self.pick_tile()
        sign = pick(["<", "<=", ">", ">=", "==", "!="])
        return pick(
            [
                f"{a} {sign} {b}",
                f"{a} {sign} {b} and {b} < {c}",
                f"{a} {sign} {b} or not {c} > 2",
                f"-3 < {a} {sign} {b}",
                f"({a} < {b}) & ({b} {sign} {c})",
                self.condition(),
            ]
        )

    def index(self, depth=0):
        pick = self.random.choice
        if depth > 1 or self.random.random() < 0.5:
            return pick([*self.indices, "0", "1", "2", "3"])
        a, b = self.index(depth + 1), self.index(depth + 1)
        return pick(
            [
                f"{a} + {b}",
                f"{a} - ({b})",
                f"({a}) % 3",
                f"({a}) // 2",
                f"max({a}, {b})",
                f"min({a}, 4)",
            ]
        )

    def condition(self):
        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        index = self.random.choice(
            ["i", "j"] + [n for n in self.indices if n not in ("i", "j", "n")]
        )
        return self.random.choice(
            [f"{index} {sign} {self.index(1)}", f"0 <= {index} < 2", f"n {sign} 2"]
        )

    # Statements

    def block(self, depth, nesting, *, in_unrolled, on_device):
        for _ in range(self.random.randint(1, 4)):
            self.budget -= 1
            self.statement(depth, nesting, in_unrolled=in_unrolled, on_device=on_device)

    def statement(self, depth, nesting, *, in_unrolled, on_device):
        pick = self.random.choice
        where = {"in_unrolled": in_unrolled, "on_device": on_device}
        kind = pick(["tile", "tile", "tile", "swap", "index", "augmented", "store", "for", "for", "if", "if",
                     "host", "unroll", "define", "exit", "fresh"])  # fmt: skip
        if nesting > 2 or self.budget < 0:
            kind = pick(["tile", "augmented", "index"])
        if kind == "tile":
            self.line(depth, f"{self.pick_tile()} = max(min({self.tile()}, 40), -40)")
        elif kind == "swap":
            self.line(depth, f"a, {pick('bc')} = {self.pick_tile()}, {self.pick_tile()}")
        elif kind == "index":
            self.line(depth, f"{pick(['i', 'j'])} = ({self.index()}) % 5")
        elif kind == "augmented":
            name = self.pick_tile()
            self.line(depth, f"{name} {pick('+-')}= {self.pick_tile()} - {pick(['X[i]', '1'])}")
            self.line(depth, f"{name} = max(min({name}, 40), -40)")
        elif kind == "store":
            self.line(depth, f"Y[{pick(['4', '5', 'i + 4', self.index(1)])}] = {self.tile(1)}")
        elif kind == "for":
            self.loop(depth, nesting, where)
        elif kind == "if":
            self.branch(depth, nesting, self.condition(), in_unrolled=False, on_device=True)
        elif kind == "host":
            host = pick(["FLAG", "SIZE > 2", "not FLAG", "FLAG and SIZE == 4"])
            self.branch(depth, nesting, host, **where)
        elif kind == "unroll":
            self.count += 1
            name = f"u{self.count}"
            items = pick(["tile.unroll(3)", "tile.unroll(3, 0, -1)", "[0, 2]"])
            self.line(depth, f"for {name} in {items}:")
            self.indices.append(name)
            self.block(depth + 1, nesting + 1, in_unrolled=True, on_device=False)
            self.indices.remove(name)
        elif kind == "define" and not on_device:
            self.count += 1
            name = f"f{self.count}"
            self.line(depth, f"def {name}(t):")
            value = self.tile(1)
            if pick([True, False]):
                value = re.sub(r"\ba\b", "t", value)
            self.line(depth + 1, f"return {value}")
            self.functions.append(name) if depth == 1 else None
        elif kind == "exit" and in_unrolled and not on_device:
            self.line(depth, f"if {pick(['FLAG', 'SIZE == 4'])}:")
            self.line(depth + 1, pick(["break", "continue"]))
        elif (
            kind in ("fresh", "define") and self.wild
        ):  # a name that may have no value where it is read
            self.line(depth, f"d = {self.tile(1)}")
            self.tiles = ["a", "b", "c", "d"]
        elif kind == "fresh" and self.loose:
            self.line(depth, f"d = {self.tile(1)}")
            self.line(depth, f"{self.pick_tile()} = d")
        else:
            self.line(depth, f"c = c + {self.pick_tile()}")

    def loop(self, depth, nesting, where):
        self.count += 1
        name = self.random.choice([f"k{self.count}", f"k{self.count}", "j"])
        bounds = self.random.choice(
            [
                "3",
                "n",
                "j",
                "1, 4",
                "4, 0, -1",
                f"({self.index(1)}) % 4",
                "2, 2",
                "n, -1, -2",
                "0, n + 2, j % 2 + 1",
            ]
        )
        self.line(depth, f"for {name} in range({bounds}):")
        if name not in self.indices:
            self.indices.append(name)
            self.block(depth + 1, nesting + 1, in_unrolled=False, on_device=True)
            self.indices.remove(name)
        else:
            self.block(depth + 1, nesting + 1, in_unrolled=False, on_device=True)
        if self.random.random() < 0.2:
            self.line(depth, "else:")
            self.line(depth + 1, f"c = c + {self.pick_tile()}")

    def branch(self, depth, nesting, condition, *, in_unrolled, on_device):
        where = {"in_unrolled": in_unrolled, "on_device": on_device}
        self.line(depth, f"if {condition}:")
        self.block(depth + 1, nesting + 1, **where)
        if self.random.random() < 0.4:
            self.line(depth, f"elif {self.condition() if on_device else 'SIZE == 4'}:")
            self.block(depth + 1, nesting + 1, **where)
        if self.random.random() < 0.5:
            self.line(depth, "else:")
            self.block(depth + 1, nesting + 1, **where)
