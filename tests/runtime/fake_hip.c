/* Stands in for ROCm's libamdhip64: two devices, no GPU. What is asked of it is noted, a line for each call,
   and a launch calls back with the kernel's name, its sizes and its packed arguments. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROPERTIES = 1472, NOT_READY = 600, INVALID_IMAGE = 200, INVALID_DEVICE = 101, NO_DEVICE = 100 };

typedef struct {
    const void *image;
    char name[128];
} Function;
typedef int (*Launched)(const void *image, const char *name, const unsigned *sizes, const void *arguments, uint64_t bytes);

char fake_hip_properties[PROPERTIES];
char fake_hip_log[1 << 16];
int fake_hip_devices = 2;
int fake_hip_capturing;
int fake_hip_refused;
Launched fake_hip_launched;
static int device, events;

static void note(const char *name, long long first, long long second) {
    size_t used = strlen(fake_hip_log);
    snprintf(fake_hip_log + used, sizeof fake_hip_log - used, "%s %lld %lld\n", name, first, second);
}

int hipInit(unsigned flags) { return fake_hip_devices ? 0 : NO_DEVICE; }
int hipGetDeviceCount(int *count) { *count = fake_hip_devices; return 0; }
int hipGetDevice(int *found) { *found = device; return 0; }
int hipSetDevice(int wanted) { note("device", wanted, 0); device = wanted; return 0; }
int hipGetDevicePropertiesR0600(void *found, int wanted) {
    if (wanted >= fake_hip_devices) return INVALID_DEVICE;
    memcpy(found, fake_hip_properties, PROPERTIES);
    return 0;
}

int hipModuleLoadData(void **module, const void *image) {
    note("load", device, 0);
    *module = (void *)image;
    return memcmp(image, "\177ELF", 4) ? INVALID_IMAGE : 0;
}
int hipModuleGetFunction(void **function, void *module, const char *name) {
    Function *made = calloc(1, sizeof *made);
    made->image = module;
    strncpy(made->name, name, sizeof made->name - 1);
    *function = made;
    return 0;
}
int hipModuleLaunchKernel(Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned memory, void *stream, void **parameters, void **extra) {
    const void *arguments = NULL;
    uint64_t bytes = 0;
    for (void **each = extra; each && each[0] != (void *)3; each += 2) {
        if (each[0] == (void *)1) arguments = each[1];
        if (each[0] == (void *)2) bytes = *(uint64_t *)each[1];
    }
    unsigned sizes[] = {gx, gy, gz, bx, by, bz, memory};
    note("launch", device, (long long)(intptr_t)stream);
    if (fake_hip_refused) return fake_hip_refused;
    return fake_hip_launched(function->image, function->name, sizes, arguments, bytes);
}

int hipHostMalloc(void **memory, size_t size, unsigned flags) {
    note("pinned", (long long)size, flags);
    *memory = malloc(size);
    return 0;
}
int hipHostFree(void *memory) { note("unpinned", 0, 0); free(memory); return 0; }
int hipMallocAsync(void **memory, size_t size, void *stream) {
    note("memory", (long long)size, (long long)(intptr_t)stream);
    *memory = malloc(size);
    return 0;
}
int hipFreeAsync(void *memory, void *stream) {
    note("free", 0, (long long)(intptr_t)stream);
    free(memory);
    return 0;
}
int hipDeviceSynchronize(void) { note("synchronize", device, 0); return 0; }

int hipStreamIsCapturing(void *stream, int *status) { *status = fake_hip_capturing; return 0; }
int hipEventCreateWithFlags(void **event, unsigned flags) { *event = (void *)(intptr_t)++events; return 0; }
int hipEventRecord(void *event, void *stream) { note("record", (intptr_t)event, (intptr_t)stream); return 0; }
int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
    note("wait", (intptr_t)stream, (intptr_t)event);
    return 0;
}
int hipEventQuery(void *event) { return 0; }
int hipEventDestroy(void *event) { note("destroy", (intptr_t)event, 0); return 0; }
