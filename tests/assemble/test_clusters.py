"""What workgroups of a cluster do with each other assembles, with addresses mapped once."""

import pytest
from ptxas import assemble
from small_kernels import SmallKernel

from gizml_tile.dtypes import BF16, F32
from gizml_tile.lowering.kernel_ir.instructions import WORKGROUP, Access


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a", "sm_120a"])
@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_memory_of_others(arch, cluster):
    build = SmallKernel(arch)
    build.cluster = cluster
    sums, halves = build.buffer(F32, 1024), build.buffer(BF16, 512)
    places = tuple((0, 4 * number) for number in range(2))
    wide, narrow = Access(WORKGROUP, sums, 4, places), Access(WORKGROUP, halves, 1, ((0, 0),))
    first = build.mul(build.thread(), build.number(8))
    other = build.map("xor", build.rank(), build.number(1))
    build.cluster_barrier()
    build.remote_store(wide, build.input(F32, 8), first, other, build.mask())
    build.remote_store(narrow, build.input(BF16), build.thread(), build.number(0))
    build.cluster_barrier()
    build.output(build.remote_load(wide, first, other, F32, build.mask()))
    build.output(build.remote_load(narrow, build.thread(), other, BF16))
    build.output(build.add(build.rank(), build.number(1)))
    build.cluster_barrier()
    artifact = build.ptx()
    report = assemble(artifact.text, artifact.arch)
    assert (report.spills, report.warnings) == (0, ())
    assert artifact.cluster == cluster and f".reqnctapercluster {cluster}" in artifact.text
    assert artifact.text.count("mapa.") == 3
    assert artifact.text.count("ld.shared::cluster.v4.b32") == 2


def test_sends():
    build = SmallKernel("sm_90a")
    build.cluster, build.signals = 2, 2
    sums = build.buffer(F32, 1024)
    first, one = build.mul(build.thread(), build.number(8)), build.number(1)
    build.when(build.map("eq", build.thread(), build.number(0)), lambda: build.signal_init(one, 1))
    build.barrier(0, 128)
    build.emit("cluster_begin")
    build.emit("cluster_begun")
    wide = Access(WORKGROUP, sums, 4, ((0, 0), (0, 4)))
    build.remote_send(wide, build.input(F32, 8), first, build.rank(), one)
    narrow = Access(WORKGROUP, sums, 1, ((0, 0),))
    build.remote_send(narrow, build.input(F32), first, build.rank(), one)
    artifact = build.ptx()
    report = assemble(artifact.text, artifact.arch)
    assert (report.spills, report.warnings) == (0, ())
    assert artifact.text.count("mapa.") == 2
    assert artifact.text.count("complete_tx::bytes.v4.b32") == 2
