/*
 * processor.c: what the processor is called.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "backend_host.h"

/* What stands behind "model name : " in /proc/cpuinfo; some systems have no
 * such line. */
static bool
read_name(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        const int length = (int) strcspn(value, "\n");
        found = length > 0;
        snprintf(out, size, "%.*s", length, value);
    }
    if (f)
        fclose(f);
    return found;
}

void
vae_host_device(const VaeBackend *backend, char *out, size_t size)
{
    struct utsname machine;
    if (!read_name(out, size))
        snprintf(out, size, "%s processor",
                 uname(&machine) == 0 ? machine.machine : "unknown");
}
