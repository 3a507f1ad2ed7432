/*
 * Reads the limits of control groups from folders like those of the system.
 */
#include <sys/stat.h>

#include "vae-private/os.h"
#include "base.h"

static char root[] = "/tmp/vae-cgroup-XXXXXX";

/* Writes a file below root. Makes the folders of its path. */
static void
put(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *f = fopen(path, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static uint64_t
left(const char *groups)
{
    char own[200];
    put("own", groups);
    snprintf(own, sizeof own, "%s/own", root);
    return vae_cgroup_left(own, root);
}

/* Version 2: `large` has 5000 bytes, the group `small` in it 1000. */
static void
version_2(void)
{
    put("memory.max", "max\n");
    put("memory.current", "9999\n");
    put("large/memory.max", "5000\n");
    put("large/memory.current", "1500\n");
    put("large/memory.stat", "anon 1\ninactive_file 300\nactive_file 200\n");
    put("large/small/memory.max", "1000\n");
    put("large/small/memory.current", "100\n");
    put("large/free/memory.max", "max\n");
    put("large/free/memory.current", "100\n");
    check(left("0::/\n") == UINT64_MAX, "no limit");
    check(left("0::/large\n") == 4000, "files in memory are free");
    check(left("0::/large/small\n") == 900, "the limit of a group");
    check(left("0::/large/free\n") == 4000, "the limit around a group");
    put("large/memory.current", "4800\n");
    check(left("0::/large/small\n") == 700, "the smaller one");
    put("large/memory.current", "7000\n");
    check(left("0::/large/small\n") == 0, "more than the limit is used");
    put("memory.max", "100000\n");
    check(left("0::/of/the/host\n") == 90001,
          "the container's group is the root");
    put("memory.max", "max\n");
}

static void
version_1(void)
{
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("memory/memory.usage_in_bytes", "0\n");
    put("memory/job/memory.limit_in_bytes", "3000\n");
    put("memory/job/memory.usage_in_bytes", "2000\n");
    put("memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 40\ntotal_active_file 60\n");
    check(left("4:memory:/job\n3:cpuset:/\n0::/\n") == 1100,
          "the limit of version 1");
    check(left("4:memory:/\n0::/\n") == UINT64_C(9223372036854771712),
          "no limit of version 1");
    check(left("3:cpuset:/large\n") == UINT64_MAX, "other controllers");
}

void
test_cgroup(void)
{
    char command[100];
    if (!mkdtemp(root))
        exit(1);
    version_2();
    version_1();
    check(left("nonsense\n1:x\n\n") == UINT64_MAX, "not a list of groups");
    check(vae_cgroup_left("/nowhere", root) == UINT64_MAX, "no list of groups");
    snprintf(command, sizeof command, "rm -r %s", root);
    check(system(command) == 0, "%s", command);
}
