/* Stands in for libamd_comgr of the version that FAKE_COMGR says: an action's output tells what it was asked. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG = 5, BITCODE = 6, RELOCATABLE = 7, EXECUTABLE = 8, MOST = 64 };

typedef struct {
    int kind, members[4], count;
    char name[64], isa[64], options[64], content[1 << 16];
    size_t size;
} Thing;
static Thing things[MOST];
static uint64_t made = 1;
int fake_comgr_open;

static int create(int kind, uint64_t *handle) {
    *handle = made++ % MOST;
    memset(&things[*handle], 0, sizeof(Thing));
    things[*handle].kind = kind;
    fake_comgr_open++;
    return 0;
}
static int gone(void) { fake_comgr_open--; return 0; }
static void add(uint64_t set, int kind, const char *text) {
    uint64_t data;
    create(kind, &data);
    fake_comgr_open--;
    things[data].size = strlen(text);
    strcpy(things[data].content, text);
    things[set].members[things[set].count++] = data;
}

void amd_comgr_get_version(size_t *major, size_t *minor) {
    *major = atoi(getenv("FAKE_COMGR"));
    *minor = 1;
}
int amd_comgr_create_data(int kind, uint64_t *handle) { return create(kind, handle); }
int amd_comgr_release_data(uint64_t data) { return gone(); }
int amd_comgr_create_data_set(uint64_t *handle) { return create(0, handle); }
int amd_comgr_destroy_data_set(uint64_t set) { return gone(); }
int amd_comgr_create_action_info(uint64_t *handle) { return create(0, handle); }
int amd_comgr_destroy_action_info(uint64_t info) { return gone(); }
int amd_comgr_set_data(uint64_t data, size_t size, const char *content) {
    things[data].size = size;
    memcpy(things[data].content, content, size);
    return 0;
}
int amd_comgr_set_data_name(uint64_t data, const char *name) { strcpy(things[data].name, name); return 0; }
int amd_comgr_data_set_add(uint64_t set, uint64_t data) {
    things[set].members[things[set].count++] = data;
    return 0;
}
int amd_comgr_action_info_set_isa_name(uint64_t info, const char *name) {
    strcpy(things[info].isa, name);
    return strstr(name, "gfx950") ? 2 : 0;
}
int amd_comgr_action_info_set_option_list(uint64_t info, const char **options, size_t count) {
    strcpy(things[info].options, count == 1 ? options[0] : "?");
    return 0;
}
int amd_comgr_action_info_set_logging(uint64_t info, _Bool on) { return !on; }
int amd_comgr_do_action(int action, uint64_t info, uint64_t inputs, uint64_t outputs) {
    Thing *given = &things[things[inputs].members[0]];
    static char told[2 << 16];
    if (strstr(given->content, "wrong")) {
        add(outputs, LOG, "error: expected a type\n");
        return 1;
    }
    snprintf(told, sizeof told, "%s%d %s %s %s %.9s;", given->kind == BITCODE ? "" : given->content, action,
             given->name, things[info].isa, things[info].options, given->content);
    add(outputs, given->kind == BITCODE ? RELOCATABLE : EXECUTABLE, told);
    return 0;
}
int amd_comgr_action_data_count(uint64_t set, int kind, size_t *count) {
    *count = 0;
    for (int each = 0; each < things[set].count; each++) *count += things[things[set].members[each]].kind == kind;
    return 0;
}
int amd_comgr_action_data_get_data(uint64_t set, int kind, size_t index, uint64_t *data) {
    for (int each = 0; each < things[set].count; each++)
        if (things[things[set].members[each]].kind == kind) *data = things[set].members[each];
    fake_comgr_open++;
    return 0;
}
int amd_comgr_get_data(uint64_t data, size_t *size, char *content) {
    if (content) memcpy(content, things[data].content, *size);
    else *size = things[data].size;
    return 0;
}
