/*
 * cgroup.c: the memory that control groups leave to the process.
 *
 * The limit of a group holds for all groups in it. A container often sees its
 * own group as the root of the file system, under which /proc/self/cgroup names
 * a folder that is not there. So each folder on the way to the root counts.
 */
#include <stdio.h>
#include <string.h>

#include "vae-private/os.h"

enum { PATH = 4096 };

/* The names in one version of control groups. */
typedef struct Names {
    const char *folder, *limit, *used, *idle, *active;
} Names;

static const Names versions[] = {
    /* 2 and 1 */
    {"", "memory.max", "memory.current", "inactive_file %llu",
     "active_file %llu"},
    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file %llu", "total_active_file %llu"},
};

static FILE *
open_file(const char *folder, const char *name)
{
    char path[PATH];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && n < PATH ? fopen(path, "re") : NULL;
}

/* UINT64_MAX: the file has no number, or there is none. */
static uint64_t
number(const char *folder, const char *name)
{
    unsigned long long value;
    FILE *f = open_file(folder, name);
    const bool good = f && fscanf(f, "%llu", &value) == 1;
    if (f)
        fclose(f);
    return good ? value : UINT64_MAX;
}

/* The pages of files, which the system frees when it needs memory. */
static uint64_t
cached(const char *folder, const Names *names)
{
    char line[128];
    unsigned long long value, sum = 0;
    FILE *f = open_file(folder, "memory.stat");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, names->idle, &value) == 1 ||
            sscanf(line, names->active, &value) == 1)
            sum += value;
    if (f)
        fclose(f);
    return sum;
}

static uint64_t
folder_left(const char *folder, const Names *names)
{
    const uint64_t limit = number(folder, names->limit);
    const uint64_t used = number(folder, names->used);
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    const uint64_t files = cached(folder, names);
    const uint64_t kept = used > files ? used - files : 0;
    return limit > kept ? limit - kept : 0;
}

/* The least that a group and the groups around it leave. */
static uint64_t
group_left(const char *mount, const char *group, const Names *names)
{
    char path[PATH];
    uint64_t least = UINT64_MAX;
    const int root = snprintf(path, sizeof path, "%s%s", mount, names->folder);
    const int n =
        snprintf(path, sizeof path, "%s%s%s", mount, names->folder, group);
    if (n < 0 || n >= PATH)
        return UINT64_MAX;
    for (char *end = path + n; end && end >= path + root;
         end = strrchr(path, '/')) {
        *end = '\0';
        const uint64_t left = folder_left(path, names);
        least = left < least ? left : least;
    }
    return least;
}

/* A line is NUMBER:CONTROLLERS:GROUP, in version 2 "0::GROUP". */
uint64_t
vae_cgroup_left(const char *own, const char *mount)
{
    char line[PATH];
    uint64_t least = UINT64_MAX;
    FILE *f = fopen(own, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *what = strchr(line, ':');
        char *group = what ? strchr(what + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        const bool old = strcmp(what, ":memory") == 0;
        if (!old && strcmp(what, ":") != 0)
            continue;
        const uint64_t left = group_left(mount, group, &versions[old]);
        least = left < least ? left : least;
    }
    if (f)
        fclose(f);
    return least;
}
