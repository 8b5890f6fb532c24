// Runs the launches that a text file tells, each on memory from files, which then hold what it left there.
#include "runtime.h"

#undef kernel
#undef device
#undef constant
#undef thread
#undef threadgroup

#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" const char* launch(int number, void* const* buffers, const uint* groups);

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
        std::vector<size_t> sizes(files);
        std::vector<std::vector<char>> names(files, std::vector<char>(4096));
        for (int number = 0; number < files; number++) {
            if (fscanf(script, "%4095s", names[number].data()) != 1) return 2;
            std::vector<char> bytes = contents(names[number].data());
            // As large as the tensors in it, so that the address sanitizer sees what lies beyond.
            sizes[number] = bytes.size();
            memory[number] = static_cast<char*>(malloc(bytes.size()));
            memcpy(memory[number], bytes.data(), bytes.size());
        }
        if (fscanf(script, "%d", &buffers) != 1) return 2;
        std::vector<void*> arguments(buffers);
        for (void*& each : arguments) {
            int file;
            long place;
            if (fscanf(script, "%d %ld", &file, &place) != 2) return 2;
            each = memory[file] + place;
        }
        const char* problem = launch(kernel, arguments.data(), groups);
        if (problem) fprintf(stderr, "%s\n", problem);
        for (int number = 0; number < files; number++) {
            FILE* file = fopen(names[number].data(), "wb");
            fwrite(memory[number], 1, sizes[number], file);
            fclose(file);
            free(memory[number]);
        }
        if (problem) return 1;
    }
    return 0;
}
