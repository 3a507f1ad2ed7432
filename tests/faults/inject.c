#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static Inject chosen;
static atomic_int kind, target, seen;
static _Atomic(const char *) refused;
static atomic_long blocks, descriptors, mappings;

void
inject_choose(Inject what)
{
    chosen = what;
}

int
inject_refuse(int n)
{
    const int before = seen;
    kind = INJECT_NOTHING;
    if (n)
        refused = NULL;
    target = n;
    seen = 0;
    kind = n ? (int) chosen : INJECT_NOTHING;
    return before;
}

const char *
inject_refused(void)
{
    return refused;
}

Live
inject_live(void)
{
    return (Live){blocks, descriptors, mappings};
}

/* Returns true if the current call, of kind `what`, is the one to refuse. */
static bool
hit(Inject what, const char *name)
{
    if (kind != (int) what || ++seen != target)
        return false;
    refused = name;
    if (what == INJECT_MEMORY)
        errno = ENOMEM;
    return true;
}

/* The same for a call that works on a file. Sets errno to `code`. */
static bool
file_hit(const char *name, bool writes)
{
    if (hit(INJECT_FILE, name)) {
        errno = EIO;
        return true;
    }
    if (writes && hit(INJECT_FULL, name)) {
        errno = ENOSPC;
        return true;
    }
    return false;
}

static void *
counted(void *block)
{
    blocks += block != NULL;
    return block;
}

/* The linker sends calls of NAME to __wrap_NAME. The function itself is
 * __real_NAME. */
#define WRAP(type, name, ...)                                                  \
    type __real_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

WRAP(void *, malloc, size_t size)
{
    return hit(INJECT_MEMORY, "malloc") ? NULL : counted(__real_malloc(size));
}

WRAP(void *, calloc, size_t n, size_t size)
{
    return hit(INJECT_MEMORY, "calloc") ? NULL
                                        : counted(__real_calloc(n, size));
}

WRAP(void *, realloc, void *block, size_t size)
{
    if (hit(INJECT_MEMORY, "realloc"))
        return NULL;
    void *moved = __real_realloc(block, size);
    return block == NULL ? counted(moved) : moved;
}

WRAP(void *, aligned_alloc, size_t alignment, size_t size)
{
    return hit(INJECT_MEMORY, "aligned_alloc")
               ? NULL
               : counted(__real_aligned_alloc(alignment, size));
}

WRAP(char *, strdup, const char *text)
{
    return hit(INJECT_MEMORY, "strdup") ? NULL : counted(__real_strdup(text));
}

WRAP(char *, realpath, const char *path, char *out)
{
    if (hit(INJECT_MEMORY, "realpath") || file_hit("realpath", false))
        return NULL;
    char *found = __real_realpath(path, out);
    return out == NULL ? counted(found) : found;
}

WRAP(int, asprintf, char **out, const char *format, ...)
{
    va_list args;
    if (hit(INJECT_MEMORY, "asprintf"))
        return -1;
    va_start(args, format);
    const int length = vasprintf(out, format, args);
    va_end(args);
    blocks += length >= 0;
    return length;
}

WRAP(void, free, void *block)
{
    blocks -= block != NULL;
    __real_free(block);
}

WRAP(int, open64, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    if (file_hit("open", (flags & O_CREAT) != 0))
        return -1;
    const int fd = __real_open64(path, flags, mode);
    descriptors += fd >= 0;
    return fd;
}

WRAP(FILE *, fopen64, const char *path, const char *mode)
{
    if (file_hit("fopen", false))
        return NULL;
    FILE *f = __real_fopen64(path, mode);
    descriptors += f != NULL;
    return f;
}

WRAP(int, fclose, FILE *f)
{
    descriptors--;
    return __real_fclose(f);
}

/* As on Linux, the file is closed even if close() reports an earlier error. */
WRAP(int, close, int fd)
{
    descriptors--;
    const int result = __real_close(fd);
    return file_hit("close", true) ? -1 : result;
}

WRAP(int, stat64, const char *path, struct stat *out)
{
    return file_hit("stat", false) ? -1 : __real_stat64(path, out);
}

WRAP(int, fstat64, int fd, struct stat *out)
{
    return file_hit("fstat", false) ? -1 : __real_fstat64(fd, out);
}

WRAP(void *, mmap64, void *at, size_t n, int prot, int flags, int fd, off_t o)
{
    if (fd < 0 ? hit(INJECT_MEMORY, "mmap") : file_hit("mmap", false))
        return MAP_FAILED;
    void *map = __real_mmap64(at, n, prot, flags, fd, o);
    mappings += map != MAP_FAILED && !(flags & MAP_FIXED);
    return map;
}

WRAP(int, munmap, void *map, size_t n)
{
    mappings--;
    return __real_munmap(map, n);
}

/* Returns how many of n bytes a write may take, or -1 if it must fail. */
static ssize_t
writable(const char *name, size_t n)
{
    if (file_hit(name, true))
        return -1;
    if (hit(INJECT_INTERRUPT, name)) {
        errno = EINTR;
        return -1;
    }
    return hit(INJECT_SHORT, name) && n > 1 ? 1 : (ssize_t) n;
}

WRAP(ssize_t, write, int fd, const void *data, size_t n)
{
    const ssize_t part = writable("write", n);
    return part < 0 ? -1 : __real_write(fd, data, (size_t) part);
}

WRAP(ssize_t, pwrite64, int fd, const void *data, size_t n, off_t at)
{
    const ssize_t part = writable("pwrite", n);
    return part < 0 ? -1 : __real_pwrite64(fd, data, (size_t) part, at);
}

WRAP(ssize_t, pread64, int fd, void *data, size_t n, off_t at)
{
    if (file_hit("pread", false))
        return -1;
    if (hit(INJECT_INTERRUPT, "pread")) {
        errno = EINTR;
        return -1;
    }
    const size_t part = hit(INJECT_SHORT, "pread") && n > 1 ? 1 : n;
    return __real_pread64(fd, data, part, at);
}

WRAP(int, fsync, int fd)
{
    return file_hit("fsync", true) ? -1 : __real_fsync(fd);
}

WRAP(int, rename, const char *from, const char *to)
{
    return file_hit("rename", true) ? -1 : __real_rename(from, to);
}

WRAP(int, unlink, const char *path)
{
    return file_hit("unlink", false) ? -1 : __real_unlink(path);
}

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attr,
     void *(*start)(void *), void *user)
{
    return hit(INJECT_THREAD, "pthread_create")
               ? EAGAIN
               : __real_pthread_create(thread, attr, start, user);
}

/* True while jansson reads a text with an escape. There it aborts the process
 * if it cannot enlarge a string, so the engine tests for memory first. */
static _Thread_local bool fragile;

static void *
json_block(size_t size)
{
    return !fragile && hit(INJECT_MEMORY, "json")
               ? NULL
               : counted(__real_malloc(size));
}

WRAP(json_t *, json_loadb, const char *text, size_t n, size_t flags,
     json_error_t *problem)
{
    fragile = memchr(text, '\\', n) != NULL;
    json_t *json = __real_json_loadb(text, n, flags, problem);
    fragile = false;
    return json;
}

__attribute__((constructor)) static void
take_jansson(void)
{
    json_set_alloc_funcs(json_block, __wrap_free);
}
