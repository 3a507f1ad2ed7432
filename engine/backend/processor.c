/*
 * processor.c: the name of the processor, and the threads in use.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "host.h"

/* Copies the text behind the first "key : " of the file. */
static bool
read_value(const char *path, const char *key, char *out, size_t size)
{
    FILE *f = fopen(path, "re");
    char line[256];
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, key, strlen(key)) != 0 || !value)
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

/* Arm processors have two numbers instead of a name. */
bool
vae_processor_name(const char *path, char *out, size_t size)
{
    char maker[32], part[32];
    if (read_value(path, "model name", out, size))
        return true;
    if (!read_value(path, "CPU implementer", maker, sizeof maker) ||
        !read_value(path, "CPU part", part, sizeof part))
        return false;
    snprintf(out, size, "Arm processor, implementer %s, part %s", maker, part);
    return true;
}

void
vae_host_describe(VaeDevice *out, int threads)
{
    struct utsname machine;
    out->threads = threads;
    if (!vae_processor_name("/proc/cpuinfo", out->name, sizeof out->name))
        snprintf(out->name, sizeof out->name, "%s processor",
                 uname(&machine) == 0 ? machine.machine : "unknown");
}
