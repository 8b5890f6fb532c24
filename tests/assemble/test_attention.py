"""The inner loop of attention: two chained asynchronous products, serial or one turn apart."""

import pytest
from ptxas import assemble
from small_kernels import SmallKernel

from gizml_tile.dtypes import BF16, F32
from gizml_tile.lowering.kernel_ir.instructions import Bulk, GroupMatrix, Operand, Role

ROWS, KEYS, DEPTH, PANEL = 128, 128, 128, 64
SCALE = 0.1275


class Attention:
    """One workgroup's rows of queries against all keys; two warpgroups take 64 rows each."""

    def __init__(self, rotated):
        self.rotated = rotated
        self.build = build = SmallKernel(threads=384)
        self.tensors = [build.tensor(BF16, 2) for _ in range(3)]
        self.queries = build.buffer(BF16, ROWS * DEPTH)
        self.keys = build.buffer(BF16, 2 * KEYS * DEPTH)
        self.values = build.buffer(BF16, 2 * KEYS * DEPTH)
        build.signals = 9  # queries; then full and empty, of keys and of values, for two stages
        self.turns, self.zero, self.one = build.number(64), build.number(0), build.number(1)

    def write(self):
        build = self.build
        first = build.map("eq", build.thread(), self.zero)
        arrivals = [1] + [1, 1, 2, 2] * 2
        build.when(
            first,
            lambda: [build.signal_init(build.number(n), each) for n, each in enumerate(arrivals)] and None,
        )
        build.barrier(0, 384)
        roles = [(Role("consumers", 0, 8), self.consume), (Role("producer", 8, 4), self.produce)]
        build.roles(roles)
        return build

    def signal(self, kind, stage):
        return self.build.add(stage, self.build.number(1 + 2 * kind))

    def produce(self):
        build = self.build
        build.emit("registers", attr=(24, False))

        def copy(number, buffer, where, row, signal):
            for panel in range(DEPTH // PANEL):
                to = build.add(where, build.number(panel * KEYS * PANEL))
                corner = [row, build.number(panel * PANEL)]
                build.bulk_load(Bulk(self.tensors[number], buffer, (KEYS, PANEL), 128), to, corner, signal)

        def turn(counter, carried):
            stage, parity = self.stage(counter)
            free = build.map("xor", parity, self.one)
            where = build.mul(stage, build.number(KEYS * DEPTH))
            row = build.mul(counter, build.number(KEYS))
            for kind, buffer in ((0, self.keys), (2, self.values)):
                build.signal_wait(self.signal(kind + 1, stage), free)
                full = self.signal(kind, stage)
                build.signal_expect(full, 2 * KEYS * DEPTH)
                copy(1 + kind // 2, buffer, where, row, full)
            return []

        def all_turns():
            build.signal_expect(self.zero, 2 * ROWS * DEPTH)
            row = build.mul(build.workgroup(), build.number(ROWS))
            copy(0, self.queries, self.zero, row, self.zero)
            build.loop(self.zero, self.turns, self.one, [], turn)

        build.when(build.map("eq", build.thread(), build.number(256)), all_turns)

    def consume(self):
        build = self.build
        build.emit("registers", attr=(240, True))
        self.group = build.map("shr", build.warp(), build.number(2))
        self.leads = build.map("eq", build.map("and", build.thread(), build.number(127)), self.zero)
        build.signal_wait(self.zero, self.zero)
        nothing = build.join([build.constant(0.0, F32)] * (DEPTH // 2))
        state = [
            build.join([build.constant(float("-inf"), F32)] * 2),
            build.join([build.constant(0.0, F32)] * 2),
        ]
        if self.rotated:
            scores = self.scores(self.zero)
            build.emit("group_wait", attr=0)
            weights, _, *state = self.softmax(scores, *state)
            start = [nothing, *state, build.convert(weights, BF16)]
            *state, weights = build.loop(self.one, self.turns, self.one, start, self.rotated_turn)
            total = self.weighted(build.number(63), weights, state[0])
            build.emit("group_wait", attr=0)
            state[0] = total
        else:
            state = build.loop(self.zero, self.turns, self.one, [nothing, *state], self.serial_turn)
        total, _, weight = state
        rows = build.pick(weight, [number >> 1 & 1 for number in range(DEPTH // 2)])
        build.output(build.convert(build.map("div", total, rows), BF16), 8)

    def serial_turn(self, counter, carried):
        build = self.build
        total, *state = carried
        scores = self.scores(counter)
        build.emit("group_wait", attr=0)
        self.release(1, counter)
        weights, scale, *state = self.softmax(scores, *state)
        total = self.weighted(counter, build.convert(weights, BF16), build.map("mul", total, scale))
        build.emit("group_wait", attr=0)
        self.release(3, counter)
        return [total, *state]

    def rotated_turn(self, counter, carried):
        build = self.build
        total, *state, before = carried
        scores = self.scores(counter)
        total = self.weighted(build.sub(counter, self.one), before, total)
        build.emit("group_wait", attr=1)
        self.release(1, counter)
        weights, scale, *state = self.softmax(scores, *state)
        build.emit("group_wait", attr=0)
        self.release(3, build.sub(counter, self.one))
        return [build.map("mul", total, scale), *state, build.convert(weights, BF16)]

    def stage(self, counter):
        build = self.build
        stage = build.map("and", counter, self.one)
        return stage, build.map("and", build.map("shr", counter, self.one), self.one)

    def release(self, kind, counter):
        stage, _ = self.stage(counter)
        self.build.when(self.leads, lambda: self.build.signal_arrive(self.signal(kind, stage)))

    def scores(self, counter):
        """Queries times keys, in two spans of the depth."""
        build = self.build
        stage, parity = self.stage(counter)
        build.signal_wait(self.signal(0, stage), parity)
        build.emit("group_fence")
        total = build.join([build.constant(0.0, F32)] * (KEYS // 2))
        for panel in range(DEPTH // PANEL):
            fresh = panel == 0
            a, b = Operand(self.queries, 128, 16, 1024), Operand(self.keys, 128, 16, 1024)
            matrix = GroupMatrix(KEYS, PANEL, (BF16, BF16), a, b, fresh)
            mine = build.add(
                build.mul(self.group, build.number(64 * PANEL)), build.number(panel * ROWS * PANEL)
            )
            theirs = build.add(
                build.mul(stage, build.number(KEYS * DEPTH)), build.number(panel * KEYS * PANEL)
            )
            total = build.group_mma(matrix, mine, theirs, total)
        build.emit("group_commit")
        return total

    def weighted(self, counter, weights, total):
        """The total plus the weights times the values."""
        build = self.build
        stage, parity = self.stage(counter)
        build.signal_wait(self.signal(2, stage), parity)
        build.emit("group_fence")
        b = Operand(self.values, 128, KEYS * 128, 1024, transposed=True)
        matrix = GroupMatrix(DEPTH, KEYS, (BF16, BF16), None, b)
        total = build.group_mma(matrix, weights, build.mul(stage, build.number(KEYS * DEPTH)), total)
        build.emit("group_commit")
        return total

    def softmax(self, scores, largest, weight):
        build = self.build
        factor = build.constant(SCALE, F32)
        above = build.map("max", largest, self.by_row("max", scores, shuffled=True))
        scale = build.map("exp2", build.mul(build.sub(largest, above), factor))
        shift = build.map("neg", build.mul(above, factor))
        row = [number >> 1 & 1 for number in range(64)]
        weights = build.map("exp2", build.fma(scores, factor, build.pick(shift, row)))
        weight = build.fma(weight, scale, self.by_row("add", weights))
        return weights, build.pick(scale, row), above, weight

    def by_row(self, op, value, shuffled=False):
        """One number for each of the thread's two rows."""
        build = self.build
        found = []
        for row in range(2):
            part = build.pick(value, [number for number in range(value.count) if number >> 1 & 1 == row])
            while part.count > 1:
                half = part.count // 2
                halves = (range(half), range(half, part.count))
                part = build.map(op, *(build.pick(part, each) for each in halves))
            for distance in (1, 2) if shuffled else ():
                part = build.map(op, part, build.shuffle_xor(part, distance))
            found.append(part)
        return build.join(found)


@pytest.mark.parametrize("rotated", [False, True], ids=["serial", "rotated"])
def test_attention(rotated):
    artifact = Attention(rotated).write().ptx()
    report = assemble(artifact.text, artifact.arch)
    assert (report.registers, report.spills, report.warnings) == (168, 0, ())
    assert artifact.text.count("wgmma.mma_async") == (16 if not rotated else 16 + 8 + 8)
