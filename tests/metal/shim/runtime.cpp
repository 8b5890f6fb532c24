#include "runtime.h"

#include "fibers.h"

#undef kernel
#undef device
#undef constant
#undef thread
#undef threadgroup

#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

// The thread sanitizer is told of fibers by hand: this file is compiled without it, so that what threads
// exchange here orders nothing but what Metal orders.
#ifdef THREAD_SANITIZER
extern "C" {
void* __tsan_create_fiber(unsigned);
void __tsan_destroy_fiber(void*);
void __tsan_switch_to_fiber(void*, unsigned);
void* __tsan_get_current_fiber();
void __tsan_acquire(void*);
void __tsan_release(void*);
}
#define TELL(call) call
#else
#define TELL(call)
#endif

namespace runtime {
namespace {

const size_t STACK = 1 << 18;
const uint LANES = 32;
enum State { READY, AT_THREADGROUP, AT_SIMDGROUP, DONE };

struct Fiber {
    Context context;
    Here here;
    State state;
    int line;
    bool ordering;
    uint turn;
    char* stack;
    void* told;
};

struct Meeting {
    char slots[2][LANES][64];
    char order;
};

std::vector<Fiber*> fibers;
Meeting meetings[32];
Context scheduler;
void* scheduler_told;
Fiber* current;
Entry entry;
void* const* arguments;
uchar* memory;
char group_start, group_end, threadgroup_order;
char problem[200];

void wait(State state, int line, void* order) {
    Fiber* self = current;
    self->state = state;
    self->line = line;
    self->ordering = order;
    if (order) TELL(__tsan_release(order));
    TELL(__tsan_switch_to_fiber(scheduler_told, 1));
    switch_context(self->context, scheduler);
    if (order) TELL(__tsan_acquire(order));
}

void run_thread() {
    TELL(__tsan_acquire(&group_start));
    entry(arguments);
    TELL(__tsan_release(&group_end));
    wait(DONE, 0, nullptr);
}

void prepare(uint count, const uint group[3], const uint groups[3]) {
    while (fibers.size() < count) {
        Fiber* made = new Fiber();
        void* stack = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        made->stack = static_cast<char*>(stack);
        fibers.push_back(made);
    }
    for (uint number = 0; number < count; number++) {
        Fiber& each = *fibers[number];
        begin_context(each.context, each.stack, STACK, run_thread);
        TELL(if (each.told) __tsan_destroy_fiber(each.told));
        TELL(each.told = __tsan_create_fiber(0));
        each.state = READY;
        each.turn = 0;
        each.here = {number, number % LANES, number / LANES, {group[0], group[1], group[2]},
                     {groups[0], groups[1], groups[2]}};
    }
}

void resume(Fiber& fiber) {
    current = &fiber;
    TELL(__tsan_switch_to_fiber(fiber.told, 1));
    switch_context(scheduler, fiber.context);
}

const char* WHERE[] = {"runs", "waits for the threadgroup", "waits for its simdgroup", "has ended"};

bool report(const Fiber& one, const Fiber& other) {
    snprintf(problem, sizeof problem, "threads part ways: %u %s at line %d, %u %s at line %d",
             one.here.number, WHERE[one.state], one.line, other.here.number, WHERE[other.state], other.line);
    return false;
}

// Let the simdgroups go on whose lanes are all at one operation; false where lanes are at different ones.
bool simdgroups(uint count, bool& moved) {
    for (uint first = 0; first < count; first += LANES) {
        Fiber& one = *fibers[first];
        for (uint number = first; number < first + LANES; number++) {
            Fiber& each = *fibers[number];
            bool alike = each.state == one.state && each.line == one.line && each.turn == one.turn;
            if (!alike) return report(one, each);
        }
        if (one.state != AT_SIMDGROUP) continue;
        for (uint number = first; number < first + LANES; number++) fibers[number]->state = READY;
        moved = true;
    }
    return true;
}

bool run_group(uint count) {
    for (;;) {
        for (uint number = 0; number < count; number++)
            if (fibers[number]->state == READY) resume(*fibers[number]);
        bool moved = false;
        if (!simdgroups(count, moved)) return false;
        if (moved) continue;
        for (uint number = 1; number < count; number++) {
            Fiber &one = *fibers[0], &each = *fibers[number];
            if (each.state != one.state || each.line != one.line) return report(one, each);
        }
        if (fibers[0]->state == DONE) break;
        for (uint number = 0; number < count; number++) fibers[number]->state = READY;
    }
    TELL(__tsan_acquire(&group_end));
    return true;
}

// Bytes are moved one by one: the sanitizer watches memcpy also where it is told not to.
void move(volatile char* to, const volatile char* from, size_t size) {
    for (size_t place = 0; place < size; place++) to[place] = from[place];
}

// The next place on an axis, or its last one where only the ends are wanted.
uint next(uint place, uint size, bool corners) { return corners && place + 1 < size ? size - 1 : place + 1; }

}  // namespace

Here& here() { return current->here; }
uchar* threadgroup_memory() { return memory; }
void meet_threadgroup(int line) { wait(AT_THREADGROUP, line, &threadgroup_order); }
void meet_simdgroup(int line) { wait(AT_SIMDGROUP, line, &meetings[current->here.simdgroup].order); }

void give(const void* bytes, size_t size, int line) {
    Fiber& self = *current;
    char* slot = meetings[self.here.simdgroup].slots[self.turn++ % 2][self.here.lane];
    move(slot, static_cast<const char*>(bytes), size);
    wait(AT_SIMDGROUP, line, nullptr);
}

void take(uint lane, void* bytes, size_t size) {
    Fiber& self = *current;
    const char* slot = meetings[self.here.simdgroup].slots[(self.turn - 1) % 2][lane];
    move(static_cast<char*>(bytes), slot, size);
}

const char* launch(Entry started, void* const* buffers, uint threads, size_t size, const uint groups[3],
                   bool corners) {
    entry = started;
    arguments = buffers;
    if (threads % LANES || threads > 1024) return "a threadgroup is whole simdgroups, at most 32";
    TELL(scheduler_told = __tsan_get_current_fiber());
    uint group[3];
    bool well = true;
    for (group[2] = 0; well && group[2] < groups[2]; group[2] = next(group[2], groups[2], corners))
        for (group[1] = 0; well && group[1] < groups[1]; group[1] = next(group[1], groups[1], corners))
            for (group[0] = 0; well && group[0] < groups[0]; group[0] = next(group[0], groups[0], corners)) {
                // As large as declared, so that the address sanitizer sees what lies beyond.
                memory = static_cast<uchar*>(aligned_alloc(16, (size + 15) / 16 * 16));
                memset(memory, 0xff, size);
                prepare(threads, group, groups);
                TELL(__tsan_release(&group_start));
                well = run_group(threads);
                free(memory);
            }
    return well ? nullptr : problem;
}

}  // namespace runtime
