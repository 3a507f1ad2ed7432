/*
 * posix.c: files, paths and memory of POSIX systems.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vae-private/os.h"

int
vae_os_open(const char *path, unsigned how)
{
    int flags = O_CLOEXEC;
    if (how & VAE_OPEN_WRITE)
        flags |= how & VAE_OPEN_READ ? O_RDWR : O_WRONLY;
    if (how & (VAE_OPEN_CREATE | VAE_OPEN_NEW))
        flags |= O_CREAT;
    if (how & VAE_OPEN_NEW)
        flags |= O_EXCL;
    if (how & VAE_OPEN_EMPTY)
        flags |= O_TRUNC;
    if (how & VAE_OPEN_NO_WAIT)
        flags |= O_NONBLOCK | O_NOCTTY;
    return open(path, flags, 0666);
}

FILE *
vae_os_fopen(const char *path)
{
    return fopen(path, "rbe");
}

ssize_t
vae_os_read_at(int fd, void *to, size_t n, uint64_t offset)
{
    return pread(fd, to, n, (off_t) offset);
}

ssize_t
vae_os_write_at(int fd, const void *from, size_t n, uint64_t offset)
{
    return pwrite(fd, from, n, (off_t) offset);
}

ssize_t
vae_os_write(int fd, const void *from, size_t n)
{
    return write(fd, from, n < SSIZE_MAX ? n : SSIZE_MAX);
}

int
vae_os_cut(int fd, uint64_t size)
{
    return ftruncate(fd, (off_t) size);
}

int
vae_os_sync(int fd, bool content)
{
    return content ? fdatasync(fd) : fsync(fd);
}

int
vae_os_open_folder_of(const char *path)
{
    char *folder = vae_os_folder_of(path);
    if (!folder)
        return -1;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int code = errno;
    free(folder);
    errno = code;
    return fd;
}

bool
vae_os_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

bool
vae_os_is_locked(const char *path)
{
    const int fd = vae_os_open(path, VAE_OPEN_READ | VAE_OPEN_NO_WAIT);
    const bool locked =
        fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

int
vae_os_rename(const char *from, const char *to)
{
    return rename(from, to);
}

int
vae_os_remove(const char *path)
{
    return unlink(path);
}

bool
vae_os_is_full(int code)
{
    return code == ENOSPC || code == EDQUOT;
}

static void
set_facts(const struct stat *st, VaeFileFacts *out)
{
    *out = (VaeFileFacts){.kind = S_ISREG(st->st_mode)    ? VAE_FILE_REGULAR
                                  : S_ISDIR(st->st_mode)  ? VAE_FILE_FOLDER
                                  : S_ISFIFO(st->st_mode) ? VAE_FILE_PIPE
                                                          : VAE_FILE_OTHER,
                          .size = (uint64_t) st->st_size,
                          .volume = (uint64_t) st->st_dev,
                          .number = (uint64_t) st->st_ino,
                          .written = (uint64_t) st->st_mtim.tv_sec *
                                         UINT64_C(1000000000) +
                                     (uint64_t) st->st_mtim.tv_nsec};
}

bool
vae_os_facts(const char *path, VaeFileFacts *out)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    set_facts(&st, out);
    return true;
}

bool
vae_os_facts_of(int fd, VaeFileFacts *out)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return false;
    set_facts(&st, out);
    return true;
}

bool
vae_os_may_write(const char *path, bool folder)
{
    return faccessat(AT_FDCWD, path, folder ? W_OK | X_OK : W_OK, AT_EACCESS) ==
           0;
}

void
vae_os_list(const char *folder, void (*see)(void *user, const char *name),
            void *user)
{
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        see(user, e->d_name);
    if (dir)
        closedir(dir);
}

/* ------------------------------------------------------------------ */

char *
vae_os_real_path(const char *path)
{
    return realpath(path, NULL);
}

char *
vae_os_broken_link(const char *path)
{
    struct stat st;
    char target[PATH_MAX];
    if (stat(path, &st) == 0 || errno != ENOENT || lstat(path, &st) != 0 ||
        !S_ISLNK(st.st_mode))
        return NULL;
    const ssize_t n = readlink(path, target, sizeof target - 1);
    return strndup(target, n < 0 ? 0 : (size_t) n);
}

const char *
vae_os_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *
vae_os_folder_of(const char *path)
{
    char *copy = strdup(path);
    char *folder = copy ? strdup(dirname(copy)) : NULL;
    free(copy);
    if (!folder)
        errno = ENOMEM;
    return folder;
}

char *
vae_os_environment(const char *name)
{
    const char *value = secure_getenv(name);
    return value ? strdup(value) : NULL;
}

/* Part i of a list with colons, from i = 1. The rules of XDG leave relative
 * paths out. */
static char *
part_of(const char *list, int i)
{
    for (const char *end; *list; list = *end ? end + 1 : end) {
        end = list + strcspn(list, ":");
        if (*list == '/' && --i == 0)
            return strndup(list, (size_t) (end - list));
    }
    return NULL;
}

char *
vae_os_data_folder(int i)
{
    const char *own = secure_getenv("XDG_DATA_HOME");
    const char *home = secure_getenv("HOME");
    const char *system = secure_getenv("XDG_DATA_DIRS");
    const bool has_own = own && *own == '/', has_home = home && *home == '/';
    char *path = NULL;
    if (i == 0 && has_own)
        return strdup(own);
    if (i == 0 && has_home)
        return asprintf(&path, "%s/.local/share", home) < 0 ? NULL : path;
    return part_of(system && *system ? system : "/usr/local/share:/usr/share",
                   has_own || has_home ? i : i + 1);
}

/* By the XDG rules, which ignore a relative path. */
char *
vae_os_cache_folder(void)
{
    const char *cache = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    char *path = NULL;
    if (cache && *cache == '/')
        return strdup(cache);
    return home && *home == '/' && asprintf(&path, "%s/.cache", home) >= 0
               ? path
               : NULL;
}

int
vae_os_make_folder(const char *path)
{
    return mkdir(path, 0700);
}

/* ------------------------------------------------------------------ */

/* The size of a large page. */
#define LARGE ((size_t) 2 << 20)

static void *
map(void *at, size_t size, int flags)
{
    void *space = mmap(at, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return space == MAP_FAILED ? NULL : space;
}

void *
vae_os_reserve(size_t size)
{
    return map(NULL, size, MAP_NORESERVE);
}

bool
vae_os_show_file(void *space, size_t size, int fd)
{
    return mmap(space, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) !=
           MAP_FAILED;
}

/* One mapping for the whole file, because systems limit their number. */
bool
vae_os_hide_file(void *space, size_t size)
{
    return map(space, size, MAP_NORESERVE | MAP_FIXED) != NULL;
}

void
vae_os_unreserve(void *space, size_t size)
{
    munmap(space, size);
}

bool
vae_os_commit(void *part, size_t size)
{
    return true; /* the first write does */
}

void
vae_os_decommit(void *part, size_t size)
{
    madvise(part, size, MADV_DONTNEED);
}

size_t
vae_os_page(void)
{
    return (size_t) sysconf(_SC_PAGESIZE);
}

void *
vae_os_pages(size_t bytes)
{
    void *pages = map(NULL, bytes, 0);
#ifdef MADV_HUGEPAGE
    /* A hint: a system without large pages uses small ones. */
    if (pages && bytes >= LARGE)
        madvise(pages, bytes, MADV_HUGEPAGE);
#endif
    return pages;
}

void
vae_os_pages_free(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

void
vae_os_pages_keep(void *pages, size_t bytes)
{
    madvise(pages, bytes, MADV_DONTFORK);
}

void
vae_os_touch(void *part, size_t bytes)
{
    const size_t page = vae_os_page();
#ifdef MADV_POPULATE_WRITE
    const size_t before = (uintptr_t) part % page;
    if (madvise((uint8_t *) part - before, before + bytes,
                MADV_POPULATE_WRITE) == 0)
        return;
#endif
    for (size_t i = 0; i < bytes; i += page)
        ((volatile uint8_t *) part)[i] = 0;
}

void *
vae_os_heap(size_t alignment, size_t bytes)
{
    return aligned_alloc(alignment, bytes);
}

void
vae_os_heap_free(void *block)
{
    free(block);
}

/* Memory that is available without swapping. */
uint64_t
vae_os_memory_left(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    const uint64_t left = kib ? (uint64_t) kib << 10 : UINT64_MAX;
    const uint64_t group =
        vae_cgroup_left("/proc/self/cgroup", "/sys/fs/cgroup");
    return group < left ? group : left;
}

/* The process's address space and data size. */
static bool
process_size(uint64_t *space, uint64_t *data)
{
    unsigned long long pages[2];
    FILE *f = fopen("/proc/self/statm", "re");
    const bool good =
        f && fscanf(f, "%llu %*u %*u %*u %*u %llu", &pages[0], &pages[1]) == 2;
    if (f)
        fclose(f);
    if (!good)
        return false;
    *space = pages[0] * vae_os_page();
    *data = pages[1] * vae_os_page();
    return true;
}

static uint64_t
limit_left(int which, uint64_t used)
{
    struct rlimit limit;
    if (getrlimit(which, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

uint64_t
vae_os_own_limit_left(void)
{
    uint64_t space, data;
    if (!process_size(&space, &data))
        return UINT64_MAX;
    const uint64_t a = limit_left(RLIMIT_AS, space);
    const uint64_t b = limit_left(RLIMIT_DATA, data);
    return a < b ? a : b;
}

uint64_t
vae_os_stack_size(void)
{
    struct rlimit stack;
    return getrlimit(RLIMIT_STACK, &stack) == 0 &&
                   stack.rlim_cur != RLIM_INFINITY
               ? stack.rlim_cur
               : 0;
}
