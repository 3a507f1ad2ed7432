/*
 * posix_process.c: modules, processors, threads and signals of POSIX systems.
 */
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "vae-private/os.h"

static void *
load(const char *path, int flags, char *why, size_t size)
{
    void *module = dlopen(path, flags | RTLD_LOCAL);
    if (!module) {
        /* the message names what is missing, such as cuDNN */
        const char *words = dlerror();
        snprintf(why, size, "%s", words ? words : path);
    }
    return module;
}

void *
vae_os_module(const char *path, char *why, size_t size)
{
    return load(path, RTLD_NOW | RTLD_NODELETE, why, size);
}

void *
vae_os_module_lazily(const char *path, char *why, size_t size)
{
    return load(path, RTLD_LAZY, why, size);
}

void *
vae_os_module_symbol(void *module, const char *name)
{
    return dlsym(module, name);
}

char *
vae_os_module_of(const void *address)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? strdup(info.dli_fname)
                                                    : NULL;
}

int
vae_os_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n;
}

bool
vae_os_allow_amx(void)
{
    return true;
}

/* Copies the text after the first "key : " of the file. */
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
vae_os_processor_name(char *out, size_t size)
{
    struct utsname machine;
    if (!vae_processor_name("/proc/cpuinfo", out, size))
        snprintf(out, size, "%s processor",
                 uname(&machine) == 0 ? machine.machine : "unknown");
}

int
vae_os_thread(pthread_t *thread, void *(*run)(void *), void *user)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int failed = pthread_create(thread, NULL, run, user);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return failed;
}

double
vae_os_thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

/* ------------------------------------------------------------------ */

static struct sigaction old_int, old_term, old_hup;

void
vae_os_catch_interrupts(void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler,
                               .sa_flags = SA_RESTART | SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &old_int);
    sigaction(SIGTERM, &action, &old_term);
    /* nohup ignores SIGHUP; keep that. */
    sigaction(SIGHUP, NULL, &old_hup);
    if (old_hup.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

void
vae_os_release_interrupts(void)
{
    sigaction(SIGINT, &old_int, NULL);
    sigaction(SIGTERM, &old_term, NULL);
    sigaction(SIGHUP, &old_hup, NULL);
}
