"""Random programs over small blocks: arithmetic, conversions, reads, stores, loops and branches."""

from __future__ import annotations

import random

from made_programs import record

from gizml_tile.dtypes import BF16, F16, F32, FP8, I8, I32, I64, MASK

FLOAT_OPS = "add sub mul div maximum minimum".split()
INTEGER_OPS = "add sub mul maximum minimum floordiv floormod rem and_ or_ xor shl shr".split()
INDEX_OPS = "add sub mul div rem floordiv floormod minimum maximum".split()
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.5]


class Generator:
    """Random statements over pools of floats, integers, masks and indices of one shape."""

    def __init__(self, seed, p, x, y, n, out, ints, sums=True):
        self.sums = sums
        self.random = random.Random(seed)
        self.p = p
        self.views = [p.read(x, [4, 4]), p.read(y, [4, 4], pad=-1.5), p.read(out, [4, 4])]
        self.numbers = p.read(n, [4, 4], pad=3)
        self.out, self.ints = p.write(out, [4, 4]), p.write(ints, [4, 4])

    def coordinate(self, pools):
        return self.random.choice([*pools["index"][-4:], 0, 1, 0, 1, 0, 1, self.random.randrange(-1, 5)])

    def recent(self, values):
        """A value, likely one of the last: what is made should be used."""
        return self.random.choice(values[-3:] if self.random.random() < 0.7 else values)

    def statement(self, pools, depth):
        pick = self.recent
        kinds = "float float read store float read store integer index mask select unary read store".split()
        kind = self.random.choice([*kinds, *(["loop", "branch"] if depth < 3 else [])])
        floats, integers = pools["float"], pools["integer"]
        match kind:
            case "float":
                other = pick([*floats, pick(CONSTANTS)])
                floats.append(getattr(pick(floats), pick(FLOAT_OPS))(other))
            case "integer":
                other = pick([*integers, pick([1, 2, 3, 5])])
                integers.append(getattr(pick(integers), pick(INTEGER_OPS))(other))
            case "index":
                other = pick([*pools["index"], pick([1, 2, -3])])
                pools["index"].append(getattr(pick(pools["index"]), pick(INDEX_OPS))(other))
            case "mask":
                made = getattr(pick(floats), pick("lt le gt ge eq ne".split()))(pick(floats))
                pools["mask"].append(
                    pick([made, made.not_(), made & pick(pools["mask"]), made ^ pick(pools["mask"])])
                )
            case "read":
                view = self.random.choice(self.views)
                at = [self.coordinate(pools), self.coordinate(pools)]
                floats.append(pick([view.at, view.window])(at))
                integers.append(self.numbers.at(at))
            case "store":
                at = [self.coordinate(pools), self.coordinate(pools)]
                if pick([True, False]):
                    self.out.put(pick(floats), at)
                else:
                    self.ints.put_window(pick(integers).to(I32), at)
            case "select":
                floats.append(pick(pools["mask"]).select(pick(floats), pick(floats)))
                integers.append(pick(pools["mask"]).select(pick(integers), pick([*integers, 7])))
            case "unary":
                value = pick(floats)
                floats.append(
                    pick(
                        [
                            value.T,
                            value.neg(),
                            value.abs(),
                            value.to(pick([F32, F16, BF16, FP8])),
                            value.sum(0) if self.sums else value.min(0),
                            value.max(1),
                            value.floor(),
                            value
                            @ pick([each for each in floats if each.shape[0] == value.shape[1]] or [value.T]),
                            pick(integers).to(F32),
                            pick(pools["index"]).value(),
                        ]
                    )
                )
                integers.append(pick([value.to(I32), pick(integers).to(I8), pick(integers).max(0)]))
            case "loop":
                self.loop(pools, depth)
            case "branch":
                self.branch(pools, depth)

    def block(self, pools, depth):
        inner = {kind: list(values) for kind, values in pools.items()}
        for _ in range(self.random.randrange(2, 8)):
            self.statement(inner, depth + 1)
        return inner

    def loop(self, pools, depth):
        inits = [
            pools["float"][-1],
            pools["integer"][-1],
            pools["index"][-1],
            self.random.choice(pools["float"]),
        ]
        inits[0], inits[1] = inits[0].to(F32), inits[1].to(I64)

        def body(k, carried):
            inner = {kind: list(values) for kind, values in pools.items()}
            inner["float"] += [carried[0], carried[3]]
            inner["integer"].append(carried[1])
            inner["index"] += [k, carried[2]]
            inner = self.block(inner, depth)
            fits = [each for each in inner["float"] if each.shape == inits[0].shape]
            whole = [each for each in inner["integer"] if each.shape == inits[1].shape]
            return [
                self.recent(fits).to(F32),
                self.recent(whole).to(I64),
                self.random.choice([*inner["index"], carried[2]]),
                self.random.choice([carried[3], carried[3], inits[3]]),
            ]

        start, stop, step = self.random.choice(
            [(0, 3, 1), (2, 0, -1), (1, 1, 1), (0, pools["index"][0], 1), (3, 1, 1)]
        )
        one, two, index, three = self.p.loop(start, stop, inits, body, step=step)
        pools["float"] += [one, three]
        pools["integer"].append(two)
        pools["index"].append(index)

    def branch(self, pools, depth):
        shape = pools["float"][-1].shape

        def arm():
            inner = self.block(pools, depth)
            fits = [each for each in inner["float"] if each.shape == shape]
            return self.recent(fits).to(F32), self.random.choice(inner["index"])

        pick = self.random.choice
        i, j = pick(pools["index"]), pick([*pools["index"], 1])
        made, index = self.p.cond(pick([i < j, i >= j, (i != j) & (i < 3), ~(i > j)]), arm, arm)
        pools["float"].append(made)
        pools["index"].append(index)


def random_body(seed, *, sums=True):
    """``body(p, x, y, n, out, ints)`` of a random program; sums differ from device to device."""

    def body(p, *tensors):
        make = Generator(seed, p, *tensors, sums=sums)
        i, j = p.id(0), p.id(1)
        pools = {
            "index": [i, j, p.count(0)],
            "float": [make.views[0][i, j], make.views[1][j, i], p.zeros([4, 4])],
            "integer": [make.numbers[i, j], p.iota([4, 4], 1, I32)],
            "mask": [p.full([4, 4], True, MASK)],
        }
        for _ in range(12):
            make.statement(pools, 0)
        make.out[i, j] = pools["float"][-1]
        make.ints[i, j] = pools["integer"][-1].to(I32)

    return body


def random_program(seed):
    """The traced program of a random body."""
    return record(random_body(seed))
