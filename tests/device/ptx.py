"""PTX written by hand, to test launches without the compiler."""

HEADER = """.version 8.0
.target sm_90a
.address_size 64
"""

# c[i] = a[i] + b[i] * factor + shift for i < n: 32-bit integers, one thread each.
ADD = (
    HEADER
    + """.visible .entry add(.param .b64 a, .param .b64 b, .param .b64 c,
                    .param .b64 n, .param .b64 factor, .param .b64 shift)
.reqntid 128
{
    .reg .pred %outside;
    .reg .b32 %i, %block, %x, %y, %f, %s;
    .reg .b64 %n, %at, %wide, %factor, %shift;
    mov.u32 %i, %tid.x;
    mov.u32 %block, %ctaid.x;
    mad.lo.u32 %i, %block, 128, %i;
    cvt.u64.u32 %wide, %i;
    ld.param.b64 %n, [n];
    setp.ge.u64 %outside, %wide, %n;
    @%outside bra done;
    shl.b64 %wide, %wide, 2;
    ld.param.b64 %at, [a];
    add.u64 %at, %at, %wide;
    ld.global.b32 %x, [%at];
    ld.param.b64 %at, [b];
    add.u64 %at, %at, %wide;
    ld.global.b32 %y, [%at];
    ld.param.b64 %factor, [factor];
    ld.param.b64 %shift, [shift];
    cvt.u32.u64 %f, %factor;
    cvt.u32.u64 %s, %shift;
    mad.lo.s32 %x, %y, %f, %x;
    add.s32 %x, %x, %s;
    ld.param.b64 %at, [c];
    add.u64 %at, %at, %wide;
    st.global.b32 [%at], %x;
done:
    ret;
}
"""
)

# Each workgroup copies 64 rows of 32 floats from one tensor to another through workgroup memory, in bulk.
BULK = (
    HEADER
    + """.extern .shared .align 1024 .b8 memory[];
.visible .entry bulk(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128])
.reqntid 128
{
    .reg .pred %other, %arrived;
    .reg .b32 %thread, %column, %row, %buffer, %barrier;
    .reg .b64 %source, %target, %state;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %other, %thread, 0;
    @%other bra done;
    mov.u32 %buffer, memory;
    add.u32 %barrier, %buffer, 8192;
    mov.u32 %column, %ctaid.x;
    shl.b32 %column, %column, 5;
    mov.u32 %row, 0;
    mov.b64 %source, from;
    cvta.param.u64 %source, %source;
    mov.b64 %target, to;
    cvta.param.u64 %target, %target;
    mbarrier.init.shared::cta.b64 [%barrier], 1;
    fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared::cta.b64 %state, [%barrier], 8192;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%buffer], [%source, {%column, %row}], [%barrier];
wait:
    mbarrier.try_wait.parity.shared::cta.b64 %arrived, [%barrier], 0;
    @!%arrived bra wait;
    fence.proxy.async.shared::cta;
    cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%target, {%column, %row}], [%buffer];
    cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;
done:
    ret;
}
"""
)

# Each workgroup writes its place in its cluster and the cluster's size.
CLUSTER = (
    HEADER
    + """.visible .entry cluster(.param .b64 to)
.reqntid 32
{
    .reg .pred %other;
    .reg .b32 %thread, %block, %rank, %size;
    .reg .b64 %at, %wide;
    mov.u32 %thread, %tid.x;
    setp.ne.u32 %other, %thread, 0;
    @%other bra done;
    mov.u32 %block, %ctaid.x;
    mov.u32 %rank, %cluster_ctarank;
    mov.u32 %size, %cluster_nctarank;
    cvt.u64.u32 %wide, %block;
    shl.b64 %wide, %wide, 3;
    ld.param.b64 %at, [to];
    add.u64 %at, %at, %wide;
    st.global.b32 [%at], %rank;
    st.global.b32 [%at+4], %size;
done:
    ret;
}
"""
)
