/*
 * Reads the processor's name from the text of /proc/cpuinfo.
 */
#include "vae-private/os.h"
#include "base.h"

static const struct Case {
    const char *text, *name; /* name: NULL if the text has none */
} cases[] = {
    {"processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 143\n"
     "model name\t: Intel(R) Xeon(R) Processor\n",
     "Intel(R) Xeon(R) Processor"},
    {"processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n"
     "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n"
     "CPU part\t: 0xd0c\nCPU revision\t: 1\n\n"
     "processor\t: 1\nCPU implementer\t: 0x42\nCPU part\t: 0xd40\n",
     "Arm processor, implementer 0x41, part 0xd0c"},
    {"processor\t: 0\nCPU implementer\t: 0x41\n", NULL},
    {"processor\t: 0\nhart\t: 0\nisa\t: rv64gc\n", NULL},
    {"", NULL},
};

void
test_processor(void)
{
    char path[] = "/tmp/vae-processor-XXXXXX", name[128];
    const int fd = mkstemp(path);
    if (fd < 0)
        exit(1);
    close(fd);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct Case *c = &cases[i];
        FILE *f = fopen(path, "w");
        if (!f)
            exit(1);
        fputs(c->text, f);
        fclose(f);
        const bool found = vae_processor_name(path, name, sizeof name);
        check(found == (c->name != NULL) && (!found || !strcmp(name, c->name)),
              "%s", c->name ? c->name : "no name");
    }
    unlink(path);
    check(!vae_processor_name(path, name, sizeof name), "no such file");
}
