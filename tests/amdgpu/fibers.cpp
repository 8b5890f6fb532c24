// What the text for AMD GPUs calls when it runs on this computer: one workgroup at a time, every thread a
// fiber of its own. All threads meet at every barrier and at every exchange between lanes, since kernels
// take neither into code where threads go apart: a thread that is elsewhere is an error.
#include <sys/mman.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

const int MOST = 1024, STACK = 1 << 18, SLOT = 128, DONE = -1;

struct Fiber {
    void *stack_pointer;
    char *stack;
    int operation;
};

// The launch as the hardware describes it (HSA's kernel dispatch packet): sizes of the grid in threads.
struct Packet {
    uint16_t header, setup, workgroup[3], reserved;
    uint32_t grid[3];
};

Fiber fibers[MOST];
int threads, current, phase, meetings;
void *outside;
const void *arguments;
void (*entry)(const void *);
int gz_wave;
Packet packet;
uint32_t workgroup[3];
char slots[2][MOST][3 * SLOT];
char error[256];

extern "C" void gz_switch(void **from, void *to);
asm(R"(
.text
.globl gz_switch
.type gz_switch, @function
gz_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size gz_switch, .-gz_switch
)");

// Wait until all threads are at an operation of this kind.
void meet(int operation) {
    Fiber &own = fibers[current];
    own.operation = operation;
    int next = current + 1;
    if (next == threads) {
        next = 0;
        for (int other = 0; other < threads; other++)
            if (fibers[other].operation != operation) {
                snprintf(error, sizeof error, "thread %d is at %d where thread %d is at %d", other,
                         fibers[other].operation, current, operation);
                gz_switch(&own.stack_pointer, outside);
            }
        phase ^= 1, meetings++;
        if (operation == DONE) gz_switch(&own.stack_pointer, outside);
    }
    current = next;
    gz_switch(&own.stack_pointer, fibers[next].stack_pointer);
}

void begin() {
    entry(arguments);
    meet(DONE);
    abort();
}

void prepare(Fiber &fiber) {
    if (!fiber.stack)
        fiber.stack = (char *)mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    // As gz_switch leaves a stack: six registers, then where to go; aligned as after a call.
    void **top = (void **)(fiber.stack + STACK) - 2;
    *top = (void *)begin;
    fiber.stack_pointer = top - 6;
}

int lane() { return current % gz_wave; }
int first_of_wave() { return current - lane(); }

// What this thread gives to the others in one exchange, and what a thread of its wave gave.
char *mine() { return slots[phase][current]; }

template <class T> T exchanged(T value, int from, int operation) {
    memcpy(mine(), &value, sizeof value);
    int now = phase;
    meet(operation);
    T found;
    memcpy(&found, slots[now][first_of_wave() + from], sizeof found);
    return found;
}

float bf16(uint16_t bits) {
    uint32_t word = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &word, 4);
    return value;
}

float fp8(uint8_t bits) {
    int exponent = bits >> 3 & 15, digits = bits & 7;
    if ((bits & 127) == 127) return NAN;
    float value = exponent ? std::ldexp(8 + digits, exponent - 10) : std::ldexp(digits, -9);
    return bits & 128 ? -value : value;
}

// The upper half of an F16.
float bf8(uint8_t bits) {
    uint16_t word = (uint16_t)bits << 8;
    _Float16 value;
    memcpy(&value, &word, 2);
    return value;
}

double element(const char *from, int number, int type) {
    switch (type) {
    case 0: return ((const _Float16 *)from)[number];
    case 1: return bf16(((const uint16_t *)from)[number]);
    case 2: return ((const float *)from)[number];
    case 3: return fp8(((const uint8_t *)from)[number]);
    case 4: return ((const int8_t *)from)[number];
    case 6: return bf8(((const uint8_t *)from)[number]);
    case 7: return ((const double *)from)[number];
    default: return ((const uint8_t *)from)[number];
    }
}

const int BYTES[] = {2, 2, 4, 1, 1, 1, 1, 8};

// Families of matrix instructions, from AMD's ISA guides and matrix instruction calculator.
enum { MFMA, WMMA11, WMMA12 };

int step_of(int family, int side, int depth, int lane, int number, int bytes) {
    if (family == WMMA11) return number;
    if (family == WMMA12 && bytes == 2) return 8 * (number / 4) + 4 * (lane / 16) + number % 4;
    if (family == WMMA12) return 8 * (lane / 16) + number;
    return lane / side * (depth * side / 64) + number;
}

int row_of(int family, int side, int lane, int number, bool doubles) {
    if (doubles) return 4 * number + lane / 16;
    if (family == WMMA11) return 2 * number + lane / 16;
    if (family == WMMA12) return 8 * (lane / 16) + number;
    return side == 16 ? 4 * (lane / 16) + number : 8 * (number / 4) + 4 * (lane / 32) + number % 4;
}

// What the lanes of a wave hold of a and of b's transpose, for the instruction at one meeting.
struct Operands {
    double values[2][32][64];
    int meeting, known;

    void put(int operand, int row, int step, double value, int lane, int side) {
        double &place = values[operand][row][step];
        // Lanes 16 to 31 of RDNA 3 repeat those below, which every other family does not.
        bool repeats = lane >= 16 && side == 16 && gz_wave == 32 && known >= 2 * 16 * 16;
        if (!repeats)
            place = value, known++;
        else if (memcmp(&place, &value, sizeof value))
            snprintf(error, sizeof error, "lane %d repeats another element", lane);
    }
};
Operands operands[MOST / 32];

} // namespace

// ISA guides: a NaN loses, and -0 is below +0.
template <typename Float>
static Float smaller(Float a, Float b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <typename Float>
static Float larger(Float a, Float b) {
    return -smaller(-a, -b);
}

extern "C" {

int gz_workitem_id_x() { return current; }
int gz_workgroup_id_x() { return workgroup[0]; }
int gz_workgroup_id_y() { return workgroup[1]; }
int gz_workgroup_id_z() { return workgroup[2]; }
const void *gz_dispatch_ptr() { return &packet; }
void gz_s_barrier() { meet(1); }
void gz_wave_barrier() { meet(2); }
void gz_sched_barrier(int) {}
int gz_readfirstlane(int value) { return exchanged(value, 0, 3); }
int gz_ds_bpermute(int place, int value) { return exchanged(value, (place >> 2) & (gz_wave - 1), 4); }

int gz_ds_swizzle(int value, int pattern) {
    int from = ((lane() & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
    return exchanged(value, (lane() & ~31) | from, 5);
}

float gz_minnum_f32(float a, float b) { return smaller(a, b); }
float gz_maxnum_f32(float a, float b) { return larger(a, b); }
double gz_minnum_f64(double a, double b) { return smaller(a, b); }
double gz_maxnum_f64(double a, double b) { return larger(a, b); }

// The units' own functions are a step away from the true value or two; a root is off by one here, up or down.
float gz_sqrt_f32(float x) {
    float root = std::sqrt(x);
    uint32_t word;
    memcpy(&word, &x, 4);
    int way = (int)(word * 2654435761u >> 30) - 1;
    if (!(x > 0) || std::isinf(x) || way > 1) return root;
    return way ? std::nextafter(root, way > 0 ? INFINITY : 0.0f) : root;
}
float gz_rcp_f32(float x) { return 1 / x; }
float gz_rsq_f32(float x) { return 1 / std::sqrt(x); }
// In turns.
float gz_sin_f32(float x) { return std::sin(x * 6.283185307179586); }
float gz_cos_f32(float x) { return std::cos(x * 6.283185307179586); }

// One instruction of a matrix unit. Every lane gives its registers of a and b, and sums its own of c.
void gz_matrix(int family, int side, int depth, int a_type, int b_type, int a_count, int c_count, int whole,
               const char *a, const char *b, const char *c, char *d) {
    memcpy(mine(), a, a_count * BYTES[a_type]);
    memcpy(mine() + SLOT, b, a_count * BYTES[b_type]);
    int now = phase, own = lane(), wave = current / gz_wave;
    meet(6);
    Operands &both = operands[wave];
    if (both.meeting != meetings) {
        both.meeting = meetings;
        both.known = 0;
        for (int each = 0; each < gz_wave; each++)
            for (int number = 0; number < a_count; number++) {
                const char *slot = slots[now][wave * gz_wave + each];
                int step = step_of(family, side, depth, each, number, BYTES[a_type]);
                both.put(0, each % side, step, element(slot, number, a_type), each, side);
                both.put(1, each % side, step, element(slot + SLOT, number, b_type), each, side);
            }
        if (both.known != 2 * side * depth) snprintf(error, sizeof error, "a product lacks elements");
    }
    for (int number = 0; number < c_count; number++) {
        const double *left = both.values[0][row_of(family, side, own, number, whole == 2)];
        const double *right = both.values[1][own % side];
        if (whole == 2) {
            double sum = ((const double *)c)[number];
            for (int step = 0; step < depth; step++) sum = std::fma(left[step], right[step], sum);
            ((double *)d)[number] = sum;
        } else if (whole) {
            int32_t sum = ((const int32_t *)c)[number];
            for (int step = 0; step < depth; step++) sum += (int32_t)(left[step] * right[step]);
            ((int32_t *)d)[number] = sum;
        } else {
            float sum = ((const float *)c)[number];
            for (int step = 0; step < depth; step++) sum = (float)(sum + left[step] * right[step]);
            ((float *)d)[number] = sum;
        }
    }
}

// A kernel in a library of its own: the length of its waves, its threads and its workgroup memory.
struct Kernel {
    void (*entry)(const void *arguments);
    char *memory;
    uint64_t memory_bytes;
    int32_t wave, threads;
};

// Run a kernel over a grid of workgroups; what is wrong, or nothing.
const char *gz_launch(const Kernel *kernel, const void *given, const uint32_t *sizes) {
    arguments = given, entry = kernel->entry, threads = kernel->threads, gz_wave = kernel->wave, error[0] = 0;
    if (threads < 1 || threads > MOST || threads % gz_wave) return "this many threads are no whole waves";
    for (int axis = 0; axis < 3; axis++) packet.grid[axis] = sizes[axis] * (axis ? 1 : threads);
    for (workgroup[2] = 0; workgroup[2] < sizes[2]; workgroup[2]++)
        for (workgroup[1] = 0; workgroup[1] < sizes[1]; workgroup[1]++)
            for (workgroup[0] = 0; workgroup[0] < sizes[0]; workgroup[0]++) {
                // NaN in every type of floats: what is read before it is written shows.
                memset(kernel->memory, 0xFF, kernel->memory_bytes);
                for (int number = 0; number < threads; number++) prepare(fibers[number]);
                current = phase = 0, meetings++;
                gz_switch(&outside, fibers[0].stack_pointer);
                if (error[0]) return error;
            }
    return error;
}
}
