// Runs threadgroups of a kernel one after the other, each thread as a fiber.
#pragma once
#include <metal_stdlib>

namespace runtime {
// A kernel with its arguments: run by each thread.
typedef void (*Entry)(void* const* buffers);
// Returns what went wrong, or null. Only the threadgroups at the grid's corners run if so asked.
const char* launch(Entry entry, void* const* buffers, uint threads, size_t memory, const uint groups[3],
                   bool corners);
}  // namespace runtime
