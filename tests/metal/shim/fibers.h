// Stacks that a thread changes between. Switching is a few instructions where it is written out, since the
// C library's way asks the kernel each time.
#pragma once
#include <cstddef>

#if defined(__x86_64__)

struct Context {
    void* stack_pointer;
};

extern "C" void switch_stack(Context* from, const Context* to);
asm(R"(
    .text
    .type switch_stack, @function
switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size switch_stack, . - switch_stack
)");

inline void switch_context(Context& from, const Context& to) { switch_stack(&from, &to); }

// Six registers and where to return to, so that a call's stack is aligned there.
inline void begin_context(Context& made, char* stack, size_t size, void (*function)()) {
    void** top = reinterpret_cast<void**>(stack + size);
    top[-2] = reinterpret_cast<void*>(function);
    for (int place = 3; place <= 8; place++) top[-place] = nullptr;
    made.stack_pointer = top - 8;
}

#else

#include <ucontext.h>

typedef ucontext_t Context;

inline void switch_context(Context& from, const Context& to) { swapcontext(&from, &to); }

inline void begin_context(Context& made, char* stack, size_t size, void (*function)()) {
    getcontext(&made);
    made.uc_stack.ss_sp = stack;
    made.uc_stack.ss_size = size;
    made.uc_link = nullptr;
    makecontext(&made, function, 0);
}

#endif
