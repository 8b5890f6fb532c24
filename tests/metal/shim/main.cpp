// Runs the launches that a text file tells, each on memory from files: the threadgroups at grids' corners.
#include "runtime.h"

#undef kernel
#undef device
#undef constant
#undef thread
#undef threadgroup

#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" const char* launch(int number, void* const* buffers, const uint* groups, bool corners);

static std::vector<char> contents(const char* name) {
    FILE* file = fopen(name, "rb");
    fseek(file, 0, SEEK_END);
    std::vector<char> bytes(ftell(file));
    rewind(file);
    if (fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) exit(2);
    fclose(file);
    return bytes;
}

// A launch: kernel, three counts of threadgroups, files, and buffers as a file's number and a byte in it.
int main(int, char** words) {
    FILE* script = fopen(words[1], "r");
    int kernel, files, buffers;
    uint groups[3];
    while (fscanf(script, "%d %u %u %u %d", &kernel, groups, groups + 1, groups + 2, &files) == 5) {
        std::vector<char*> memory(files);
        for (int number = 0; number < files; number++) {
            char name[4096];
            if (fscanf(script, "%4095s", name) != 1) return 2;
            std::vector<char> bytes = contents(name);
            // As large as the tensors in it, so that the address sanitizer sees what lies beyond.
            memory[number] = static_cast<char*>(malloc(bytes.size()));
            if (!bytes.empty()) memcpy(memory[number], bytes.data(), bytes.size());
        }
        if (fscanf(script, "%d", &buffers) != 1) return 2;
        std::vector<void*> arguments(buffers);
        for (void*& each : arguments) {
            int file;
            long place;
            if (fscanf(script, "%d %ld", &file, &place) != 2) return 2;
            each = memory[file] + place;
        }
        const char* problem = launch(kernel, arguments.data(), groups, true);
        if (problem) fprintf(stderr, "%s\n", problem);
        for (char* each : memory) free(each);
        if (problem) return 1;
    }
    return 0;
}
