"""The native half of the worker pool, as LLVM text: sharing out a launch without holding Python's lock.

The pool is one block of memory that kernels get a pointer to. Kernels use the first four words; the
rest belongs to the functions here. Offsets in bytes:

==== ==============================================================================================
   0 ``run(pool, function, args, count, chunk)``: calls ``function(args, arena, low, high)`` over
     ``[0, count)`` in pieces of ``chunk`` on all threads, and returns when the last is done
   8 ``reserve(pool, bytes)``: scratch for the launch, 64-byte aligned, or null without memory
  16 threads, the caller among them
  24 bytes of each thread's arena
  32 scratch: aligned address, 40: bytes, 48: what ``malloc`` returned
  56 whether a launch is running
  64 the ticket: epoch << 32 | pieces not yet taken
 128 pieces done
 192 epoch, 196: workers asleep, 200: whether to stop, 208: turns to spin before sleeping
 256 function, 264: args, 272: count, 280: chunk, 288: pieces
 320 addresses of the arenas, one for each thread, the caller's first
==== ==============================================================================================

A piece is taken by a compare-and-swap on the ticket. The epoch in it makes a worker that wakes late
fail instead of taking work of a later launch, so a launch never waits for workers that are asleep.
"""

from __future__ import annotations

ARENAS = 320
BUSY, GROW = -1, -2

_TEXT = """
declare ptr @malloc(i64)
declare void @free(ptr)
<declarations>

define internal i64 @share(ptr %pool, i64 %index) {
entry:
  %arena.at = getelementptr i8, ptr %pool, i64 320
  %arena.p = getelementptr ptr, ptr %arena.at, i64 %index
  %ticket.p = getelementptr i8, ptr %pool, i64 64
  %done.p = getelementptr i8, ptr %pool, i64 128
  %function.p = getelementptr i8, ptr %pool, i64 256
  %args.p = getelementptr i8, ptr %pool, i64 264
  %count.p = getelementptr i8, ptr %pool, i64 272
  %chunk.p = getelementptr i8, ptr %pool, i64 280
  %pieces.p = getelementptr i8, ptr %pool, i64 288
  br label %look
look:
  %ticket = load atomic i64, ptr %ticket.p acquire, align 8
  %left = and i64 %ticket, 4294967295
  %none = icmp eq i64 %left, 0
  br i1 %none, label %out, label %take
take:
  %less = sub i64 %ticket, 1
  %swap = cmpxchg ptr %ticket.p, i64 %ticket, i64 %less acq_rel acquire
  %taken = extractvalue {i64, i1} %swap, 1
  br i1 %taken, label %work, label %look
work:
  %arena = load ptr, ptr %arena.p
  %function = load ptr, ptr %function.p
  %args = load ptr, ptr %args.p
  %count = load i64, ptr %count.p
  %chunk = load i64, ptr %chunk.p
  %pieces = load i64, ptr %pieces.p
  %piece = sub i64 %pieces, %left
  %low = mul i64 %piece, %chunk
  %rest = sub i64 %count, %low
  %last = icmp ult i64 %rest, %chunk
  %size = select i1 %last, i64 %rest, i64 %chunk
  %high = add i64 %low, %size
  call void %function(ptr %args, ptr %arena, i64 %low, i64 %high)
  %before = atomicrmw add ptr %done.p, i64 1 release
  br label %look
out:
  ret i64 0
}

define i64 @worker(ptr %pool, i64 %index) {
entry:
  %epoch.p = getelementptr i8, ptr %pool, i64 192
  %asleep.p = getelementptr i8, ptr %pool, i64 196
  %stop.p = getelementptr i8, ptr %pool, i64 200
  %turns.p = getelementptr i8, ptr %pool, i64 208
  %turns = load i64, ptr %turns.p
  br label %begin
begin:
  %epoch = load atomic i32, ptr %epoch.p seq_cst, align 4
  %stop = load atomic i64, ptr %stop.p seq_cst, align 8
  %stopping = icmp ne i64 %stop, 0
  br i1 %stopping, label %stopped, label %help
help:
  %shared = call i64 @share(ptr %pool, i64 %index)
  br label %spin
spin:
  %turn = phi i64 [0, %help], [%turn.next, %again]
  %now = load atomic i32, ptr %epoch.p acquire, align 4
  %changed = icmp ne i32 %now, %epoch
  br i1 %changed, label %begin, label %again
again:
  <pause>
  %turn.next = add i64 %turn, 1
  %more = icmp ult i64 %turn.next, %turns
  br i1 %more, label %spin, label %sleep
sleep:
  <sleep>
stopped:
  ret i64 1
}

define void @run(ptr %pool, ptr %function, ptr %args, i64 %count, i64 %chunk.wanted) {
entry:
  %threads.p = getelementptr i8, ptr %pool, i64 16
  %threads = load i64, ptr %threads.p
  %arena.p = getelementptr i8, ptr %pool, i64 320
  %arena = load ptr, ptr %arena.p
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %divide, label %out
divide:
  ; the ticket counts pieces in 32 bits
  %least = lshr i64 %count, 31
  %least.1 = add i64 %least, 1
  %small = icmp slt i64 %chunk.wanted, %least.1
  %chunk = select i1 %small, i64 %least.1, i64 %chunk.wanted
  %count.less = sub i64 %count, 1
  %pieces.less = udiv i64 %count.less, %chunk
  %pieces = add i64 %pieces.less, 1
  %one = icmp eq i64 %pieces, 1
  %lone = icmp ule i64 %threads, 1
  %alone = or i1 %one, %lone
  br i1 %alone, label %inline, label %publish
inline:
  call void %function(ptr %args, ptr %arena, i64 0, i64 %count)
  ret void
publish:
  %ticket.p = getelementptr i8, ptr %pool, i64 64
  %done.p = getelementptr i8, ptr %pool, i64 128
  %epoch.p = getelementptr i8, ptr %pool, i64 192
  %asleep.p = getelementptr i8, ptr %pool, i64 196
  %turns.p = getelementptr i8, ptr %pool, i64 208
  %function.p = getelementptr i8, ptr %pool, i64 256
  %args.p = getelementptr i8, ptr %pool, i64 264
  %count.p = getelementptr i8, ptr %pool, i64 272
  %chunk.p = getelementptr i8, ptr %pool, i64 280
  %pieces.p = getelementptr i8, ptr %pool, i64 288
  store ptr %function, ptr %function.p
  store ptr %args, ptr %args.p
  store i64 %count, ptr %count.p
  store i64 %chunk, ptr %chunk.p
  store i64 %pieces, ptr %pieces.p
  store atomic i64 0, ptr %done.p release, align 8
  %old = load atomic i32, ptr %epoch.p monotonic, align 4
  %epoch = add i32 %old, 1
  %epoch.wide = zext i32 %epoch to i64
  %epoch.high = shl i64 %epoch.wide, 32
  %ticket = or i64 %epoch.high, %pieces
  store atomic i64 %ticket, ptr %ticket.p seq_cst, align 8
  store atomic i32 %epoch, ptr %epoch.p seq_cst, align 4
  <wake>
  %shared = call i64 @share(ptr %pool, i64 0)
  %turns = load i64, ptr %turns.p
  br label %wait
wait:
  %turn = phi i64 [0, <before wait>], [%turn.next, %patient], [%turn.next, %impatient]
  %done = load atomic i64, ptr %done.p acquire, align 8
  %finished = icmp uge i64 %done, %pieces
  br i1 %finished, label %out, label %longer
longer:
  %turn.next = add i64 %turn, 1
  %early = icmp ult i64 %turn, %turns
  br i1 %early, label %patient, label %impatient
patient:
  <pause>
  br label %wait
impatient:
  ; a worker that holds a piece may be waiting for this very core
  <yield>
  br label %wait
out:
  ret void
}

define ptr @reserve(ptr %pool, i64 %bytes) {
entry:
  %scratch.p = getelementptr i8, ptr %pool, i64 32
  %capacity.p = getelementptr i8, ptr %pool, i64 40
  %allocation.p = getelementptr i8, ptr %pool, i64 48
  %capacity = load i64, ptr %capacity.p
  %enough = icmp ule i64 %bytes, %capacity
  br i1 %enough, label %have, label %grow
have:
  %scratch = load ptr, ptr %scratch.p
  ret ptr %scratch
grow:
  ; forgotten before it is freed, since a fork may come between
  %old = load ptr, ptr %allocation.p
  store i64 0, ptr %capacity.p
  store ptr null, ptr %allocation.p
  call void @free(ptr %old)
  ; whole pages of 2 MiB
  %up = add i64 %bytes, 2097151
  %size = and i64 %up, -2097152
  %total = add i64 %size, 2097152
  %overflow = icmp ult i64 %total, %bytes
  br i1 %overflow, label %fail, label %allocate
allocate:
  %allocation = call ptr @malloc(i64 %total)
  %null = icmp eq ptr %allocation, null
  br i1 %null, label %fail, label %align
align:
  store ptr %allocation, ptr %allocation.p
  %address = ptrtoint ptr %allocation to i64
  %address.up = add i64 %address, 2097151
  %address.aligned = and i64 %address.up, -2097152
  %aligned = inttoptr i64 %address.aligned to ptr
  store ptr %aligned, ptr %scratch.p
  store i64 %size, ptr %capacity.p
  <advise>
  ret ptr %aligned
fail:
  ret ptr null
}

define void @release(ptr %pool) {
  %allocation.p = getelementptr i8, ptr %pool, i64 48
  %allocation = load ptr, ptr %allocation.p
  call void @free(ptr %allocation)
  store ptr null, ptr %allocation.p
  %capacity.p = getelementptr i8, ptr %pool, i64 40
  store i64 0, ptr %capacity.p
  ret void
}

define i64 @lock(ptr %pool) {
  %lock.p = getelementptr i8, ptr %pool, i64 56
  %swap = cmpxchg ptr %lock.p, i64 0, i64 1 acq_rel acquire
  %taken = extractvalue {i64, i1} %swap, 1
  %result = zext i1 %taken to i64
  ret i64 %result
}

define void @unlock(ptr %pool) {
  %lock.p = getelementptr i8, ptr %pool, i64 56
  store atomic i64 0, ptr %lock.p release, align 8
  ret void
}

define i64 @launch(ptr %kernel, ptr %args, ptr %pool, i64 %arena.bytes) {
entry:
  %free = call i64 @lock(ptr %pool)
  %busy = icmp eq i64 %free, 0
  br i1 %busy, label %taken, label %check
taken:
  ret i64 -1
check:
  %have.p = getelementptr i8, ptr %pool, i64 24
  %have = load i64, ptr %have.p
  %fits = icmp ule i64 %arena.bytes, %have
  br i1 %fits, label %go, label %grow
grow:
  call void @unlock(ptr %pool)
  ret i64 -2
go:
  %status = call i64 %kernel(ptr %args, ptr %pool)
  call void @unlock(ptr %pool)
  ret i64 %status
}

define void @stop(ptr %pool) {
  %epoch.p = getelementptr i8, ptr %pool, i64 192
  %asleep.p = getelementptr i8, ptr %pool, i64 196
  %stop.p = getelementptr i8, ptr %pool, i64 200
  store atomic i64 1, ptr %stop.p seq_cst, align 8
  %old = atomicrmw add ptr %epoch.p, i32 1 seq_cst
  <wake all>
  ret void
}

define void @spin(i64 %turns) {
entry:
  br label %loop
loop:
  %turn = phi i64 [0, %entry], [%next, %loop]
  <pause>
  %next = add i64 %turn, 1
  %more = icmp ult i64 %next, %turns
  br i1 %more, label %loop, label %out
out:
  ret void
}
"""

FUNCTIONS = ("worker", "run", "reserve", "release", "lock", "unlock", "launch", "stop", "spin")

_PAUSES = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_FUTEX_NUMBERS = {"x86_64": 202, "aarch64": 98}
_ADVICE_HUGE_PAGES = 14


def pool_text(triple: str, futex: bool) -> str:
    """The pool's functions for a platform; without ``futex`` a worker returns 0 instead of sleeping."""
    machine, linux = triple.partition("-")[0], "linux" in triple
    pause_declaration, pause = _PAUSES[machine]
    declarations = [pause_declaration]
    parts = {
        "pause": pause,
        "sleep": "ret i64 0",
        "wake": "",
        "wake all": "",
        "yield": pause,
        "advise": "",
        "before wait": "%publish",
    }
    if "windows" not in triple:
        declarations.append("declare i32 @sched_yield()")
        parts["yield"] = "%yielded = call i32 @sched_yield()"
    if linux:
        declarations.append("declare i32 @madvise(ptr, i64, i32)")
        parts["advise"] = (
            f"%advised = call i32 @madvise(ptr %aligned, i64 %size, i32 {_ADVICE_HUGE_PAGES})"
        )
    if futex:
        declarations.append("declare i64 @syscall(i64, ...)")
        parts |= _futex(_FUTEX_NUMBERS[machine])
    text = _TEXT.replace("<declarations>", "\n".join(declarations))
    for name, part in parts.items():
        text = text.replace(f"<{name}>", part)
    return text


def _futex(number: int) -> dict[str, str]:
    """Sleeping until the epoch changes, and waking as many workers as there are pieces for them."""

    def call(operation: int, value: str) -> str:
        return (
            f"call i64 (i64, ...) @syscall(i64 {number}, ptr %epoch.p, i32 {operation}, i32 {value}, "
            "ptr null, ptr null, i32 0)"
        )

    sleep = f"""%one.more = atomicrmw add ptr %asleep.p, i32 1 seq_cst
  %slept = {call(128, "%epoch")}
  %one.less = atomicrmw sub ptr %asleep.p, i32 1 seq_cst
  br label %begin"""
    wake = f"""%asleep = load atomic i32, ptr %asleep.p seq_cst, align 4
  %sleepers = icmp ne i32 %asleep, 0
  br i1 %sleepers, label %wake, label %awake
wake:
  %helpers = trunc i64 %pieces.less to i32
  %woken = {call(129, "%helpers")}
  br label %awake
awake:"""
    return {
        "sleep": sleep,
        "wake": wake,
        "wake all": f"%woken = {call(129, '2147483647')}",
        "before wait": "%awake",
    }
