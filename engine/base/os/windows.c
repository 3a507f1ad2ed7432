/*
 * windows.c: files, paths and memory of Windows.
 */
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <windows.h>

#include "vae-private/os.h"

enum {
    SHARE = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
    LONGEST = 32768, /* characters of a path */
    PLAIN = 240,     /* longer paths need a prefix */
    PART = 1 << 30   /* the most for one call */
};

static void
set_errno(DWORD code)
{
    switch (code) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_NET_NAME:
    case ERROR_INVALID_DRIVE:
        errno = ENOENT;
        break;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
    case ERROR_USER_MAPPED_FILE:
    case ERROR_WRITE_PROTECT:
        errno = EACCES;
        break;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        errno = EEXIST;
        break;
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL:
    case 1295: /* ERROR_DISK_QUOTA_EXCEEDED */
        errno = ENOSPC;
        break;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
        errno = ENOMEM;
        break;
    case ERROR_FILENAME_EXCED_RANGE:
        errno = ENAMETOOLONG;
        break;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA:
        errno = EPIPE;
        break;
    default:
        errno = EIO;
    }
}

static int
fail(void)
{
    set_errno(GetLastError());
    return -1;
}

/* Free with free(). A long path gets the prefix that lifts the limit. */
static wchar_t *
wide(const char *path)
{
    const int n =
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *out = n > 0 ? malloc((size_t) n * sizeof *out) : NULL;
    if (!out) {
        errno = n > 0 ? ENOMEM : ENOENT;
        return NULL;
    }
    MultiByteToWideChar(CP_UTF8, 0, path, -1, out, n);
    if (n < PLAIN || wcsncmp(out, L"\\\\", 2) == 0)
        return out;
    wchar_t *full = malloc(LONGEST * sizeof *full);
    if (full) {
        wcscpy(full, L"\\\\?\\");
        const DWORD got = GetFullPathNameW(out, LONGEST - 4, full + 4, NULL);
        if (got == 0 || got >= LONGEST - 4 || full[4] == L'\\') {
            free(full);
            return out;
        }
        free(out);
        out = full;
    }
    return out;
}

static char *
narrow(const wchar_t *text)
{
    const int n =
        WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = n > 0 ? malloc((size_t) n) : NULL;
    if (out)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, out, n, NULL, NULL);
    else
        errno = ENOMEM;
    return out;
}

static HANDLE
handle_of(int fd)
{
    return (HANDLE) _get_osfhandle(fd);
}

static HANDLE
open_handle(const char *path, DWORD access, DWORD create, DWORD flags)
{
    wchar_t *name = wide(path);
    if (!name)
        return INVALID_HANDLE_VALUE;
    HANDLE h = CreateFileW(name, access, SHARE, NULL, create, flags, NULL);
    if (h == INVALID_HANDLE_VALUE)
        fail();
    free(name);
    return h;
}

int
vae_os_open(const char *path, unsigned how)
{
    const bool empty = how & VAE_OPEN_EMPTY;
    const DWORD access = (how & VAE_OPEN_READ ? GENERIC_READ : 0) |
                         (how & VAE_OPEN_WRITE ? GENERIC_WRITE : 0);
    const DWORD create = how & VAE_OPEN_NEW ? CREATE_NEW
                         : how & VAE_OPEN_CREATE
                             ? (empty ? CREATE_ALWAYS : OPEN_ALWAYS)
                             : (empty ? TRUNCATE_EXISTING : OPEN_EXISTING);
    /* A folder opens, too: the caller then says that it is one, as on other
     * systems. */
    HANDLE h = open_handle(path, access, create,
                           FILE_ATTRIBUTE_NORMAL | FILE_FLAG_BACKUP_SEMANTICS);
    return h == INVALID_HANDLE_VALUE
               ? -1
               : _open_osfhandle((intptr_t) h,
                                 _O_BINARY | _O_NOINHERIT |
                                     (how & VAE_OPEN_WRITE ? 0 : _O_RDONLY));
}

FILE *
vae_os_fopen(const char *path)
{
    const int fd = vae_os_open(path, VAE_OPEN_READ);
    return fd < 0 ? NULL : _fdopen(fd, "rb");
}

static OVERLAPPED
place(uint64_t offset)
{
    return (OVERLAPPED){.Offset = (DWORD) offset,
                        .OffsetHigh = (DWORD) (offset >> 32)};
}

ssize_t
vae_os_read_at(int fd, void *to, size_t n, uint64_t offset)
{
    OVERLAPPED at = place(offset);
    DWORD got = 0;
    if (ReadFile(handle_of(fd), to, n < PART ? (DWORD) n : PART, &got, &at))
        return got;
    return GetLastError() == ERROR_HANDLE_EOF ? 0 : fail();
}

ssize_t
vae_os_write_at(int fd, const void *from, size_t n, uint64_t offset)
{
    OVERLAPPED at = place(offset);
    DWORD got = 0;
    return WriteFile(handle_of(fd), from, n < PART ? (DWORD) n : PART, &got,
                     &at)
               ? (ssize_t) got
               : fail();
}

ssize_t
vae_os_write(int fd, const void *from, size_t n)
{
    DWORD got = 0;
    return WriteFile(handle_of(fd), from, n < PART ? (DWORD) n : PART, &got,
                     NULL)
               ? (ssize_t) got
               : fail();
}

int
vae_os_cut(int fd, uint64_t size)
{
    FILE_END_OF_FILE_INFO end = {.EndOfFile.QuadPart = (LONGLONG) size};
    return SetFileInformationByHandle(handle_of(fd), FileEndOfFileInfo, &end,
                                      sizeof end)
               ? 0
               : fail();
}

int
vae_os_sync(int fd, bool content)
{
    if (FlushFileBuffers(handle_of(fd)))
        return 0;
    const DWORD code = GetLastError();
    set_errno(code);
    /* of a folder, or of a device */
    if (code == ERROR_ACCESS_DENIED || code == ERROR_INVALID_FUNCTION ||
        code == ERROR_INVALID_HANDLE)
        errno = EINVAL;
    return -1;
}

int
vae_os_open_folder_of(const char *path)
{
    char *folder = vae_os_folder_of(path);
    const int fd = folder ? vae_os_open(folder, VAE_OPEN_READ) : -1;
    free(folder);
    return fd;
}

/* False: another opening of the file has the lock. Locks forbid others to read,
 * so the locked byte is far after the end. */
static bool
lock(int fd, DWORD kind)
{
    OVERLAPPED at = place(UINT64_C(1) << 62);
    return LockFileEx(handle_of(fd), kind | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
                      &at) ||
           GetLastError() != ERROR_LOCK_VIOLATION;
}

bool
vae_os_lock(int fd)
{
    return lock(fd, LOCKFILE_EXCLUSIVE_LOCK);
}

bool
vae_os_is_locked(const char *path)
{
    const int fd = vae_os_open(path, VAE_OPEN_READ);
    const bool locked = fd >= 0 && !lock(fd, 0);
    if (fd >= 0)
        close(fd);
    return locked;
}

/* With FILE_RENAME_FLAG_POSIX_SEMANTICS `to` may be open. */
static bool
rename_over(const wchar_t *from, const wchar_t *to)
{
    enum { REPLACE = 1, POSIX = 2, RENAME_INFO_EX = 22 };
    typedef struct Rename {
        DWORD flags;
        HANDLE root;
        DWORD bytes;
        WCHAR name[1];
    } Rename;
    const size_t bytes = wcslen(to) * sizeof *to;
    Rename *r = calloc(1, sizeof *r + bytes);
    HANDLE h = r ? CreateFileW(from, DELETE | SYNCHRONIZE, SHARE, NULL,
                               OPEN_EXISTING, 0, NULL)
                 : INVALID_HANDLE_VALUE;
    bool done = false;
    if (h != INVALID_HANDLE_VALUE) {
        r->flags = REPLACE | POSIX;
        r->bytes = (DWORD) bytes;
        memcpy(r->name, to, bytes);
        done = SetFileInformationByHandle(
            h, (FILE_INFO_BY_HANDLE_CLASS) RENAME_INFO_EX, r,
            (DWORD) (sizeof *r + bytes));
        CloseHandle(h);
    }
    free(r);
    return done;
}

int
vae_os_rename(const char *from, const char *to)
{
    wchar_t *a = wide(from), *b = wide(to);
    int result = -1;
    if (a && b &&
        (rename_over(a, b) || MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING)))
        result = 0;
    else if (a && b)
        fail();
    free(a);
    free(b);
    return result;
}

int
vae_os_remove(const char *path)
{
    wchar_t *name = wide(path);
    const int result = !name ? -1 : DeleteFileW(name) ? 0 : fail();
    free(name);
    return result;
}

bool
vae_os_is_full(int code)
{
    return code == ENOSPC;
}

static bool
facts_of(HANDLE h, VaeFileFacts *out)
{
    BY_HANDLE_FILE_INFORMATION i;
    const DWORD type = GetFileType(h);
    *out = (VaeFileFacts){.kind = type == FILE_TYPE_PIPE ? VAE_FILE_PIPE
                                                         : VAE_FILE_OTHER};
    if (type != FILE_TYPE_DISK)
        return type != FILE_TYPE_UNKNOWN;
    if (!GetFileInformationByHandle(h, &i))
        return false;
    out->kind = i.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY
                    ? VAE_FILE_FOLDER
                    : VAE_FILE_REGULAR;
    out->size = (uint64_t) i.nFileSizeHigh << 32 | i.nFileSizeLow;
    out->volume = i.dwVolumeSerialNumber;
    out->number = (uint64_t) i.nFileIndexHigh << 32 | i.nFileIndexLow;
    out->written = (uint64_t) i.ftLastWriteTime.dwHighDateTime << 32 |
                   i.ftLastWriteTime.dwLowDateTime;
    return true;
}

bool
vae_os_facts(const char *path, VaeFileFacts *out)
{
    HANDLE h = open_handle(path, 0, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (h == INVALID_HANDLE_VALUE)
        return false;
    const bool good = facts_of(h, out);
    if (!good)
        fail();
    CloseHandle(h);
    return good;
}

bool
vae_os_facts_of(int fd, VaeFileFacts *out)
{
    return facts_of(handle_of(fd), out) || fail() == 0;
}

/* Opens it for writing, because its attributes do not show all rights. */
bool
vae_os_may_write(const char *path, bool folder)
{
    HANDLE h = open_handle(path, folder ? FILE_ADD_FILE : GENERIC_WRITE,
                           OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (h != INVALID_HANDLE_VALUE)
        CloseHandle(h);
    return h != INVALID_HANDLE_VALUE;
}

void
vae_os_list(const char *folder, void (*see)(void *user, const char *name),
            void *user)
{
    const size_t size = strlen(folder) + 3;
    char *pattern = malloc(size);
    wchar_t *name = NULL;
    if (pattern) {
        snprintf(pattern, size, "%s/*", folder);
        name = wide(pattern);
    }
    WIN32_FIND_DATAW found;
    HANDLE h = name ? FindFirstFileW(name, &found) : INVALID_HANDLE_VALUE;
    for (BOOL more = h != INVALID_HANDLE_VALUE; more;
         more = FindNextFileW(h, &found)) {
        char *one = narrow(found.cFileName);
        if (one)
            see(user, one);
        free(one);
    }
    if (h != INVALID_HANDLE_VALUE)
        FindClose(h);
    free(name);
    free(pattern);
}

/* ------------------------------------------------------------------ */

static void
use_slashes(char *path)
{
    for (char *p = path; p && *p; p++)
        if (*p == '\\')
            *p = '/';
}

char *
vae_os_real_path(const char *path)
{
    HANDLE h = open_handle(path, 0, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (h == INVALID_HANDLE_VALUE)
        return NULL;
    wchar_t *full = malloc(LONGEST * sizeof *full);
    char *out = NULL;
    errno = ENOMEM;
    if (full && GetFinalPathNameByHandleW(h, full, LONGEST, 0) == 0)
        fail();
    else if (full && wcsncmp(full, L"\\\\?\\UNC\\", 8) == 0)
        out = narrow(wmemcpy(full + 6, L"\\", 1));
    else if (full)
        out = narrow(wcsncmp(full, L"\\\\?\\", 4) == 0 ? full + 4 : full);
    CloseHandle(h);
    free(full);
    use_slashes(out);
    return out;
}

char *
vae_os_broken_link(const char *path)
{
    return NULL; /* found as a missing file */
}

static bool
ends_folder(char c)
{
    return c == '/' || c == '\\';
}

const char *
vae_os_file_name(const char *path)
{
    const char *name = path[0] && path[1] == ':' ? path + 2 : path;
    for (const char *p = name; *p; p++)
        if (ends_folder(*p))
            name = p + 1;
    return name;
}

char *
vae_os_folder_of(const char *path)
{
    size_t n = (size_t) (vae_os_file_name(path) - path);
    /* The root keeps its slash. */
    while (n > 1 && ends_folder(path[n - 1]) && path[n - 2] != ':')
        n--;
    char *folder = malloc(n + 2);
    if (!folder) {
        errno = ENOMEM;
        return NULL;
    }
    memcpy(folder, n ? path : ".", n ? n : 1);
    folder[n ? n : 1] = '\0';
    return folder;
}

char *
vae_os_environment(const char *name)
{
    wchar_t *key = wide(name);
    wchar_t *value = malloc(LONGEST * sizeof *value);
    char *out = NULL;
    if (key && value && GetEnvironmentVariableW(key, value, LONGEST) > 0)
        out = narrow(value);
    free(key);
    free(value);
    return out;
}

char *
vae_os_data_folder(int i)
{
    static const char *const names[] = {"LOCALAPPDATA", "PROGRAMDATA"};
    char *folder = i < 2 ? vae_os_environment(names[i]) : NULL;
    if (folder)
        use_slashes(folder);
    return folder;
}

char *
vae_os_cache_folder(void)
{
    return vae_os_data_folder(0);
}

int
vae_os_make_folder(const char *path)
{
    wchar_t *name = wide(path);
    const int result = !name ? -1 : CreateDirectoryW(name, NULL) ? 0 : fail();
    free(name);
    return result;
}

/* ------------------------------------------------------------------ */

void *
vae_os_reserve(size_t size)
{
    return VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_READWRITE);
}

/* Between its release and the view, another thread may take the space. Then
 * this fails, and so does opening the file. */
bool
vae_os_show_file(void *space, size_t size, int fd)
{
    HANDLE map =
        CreateFileMappingW(handle_of(fd), NULL, PAGE_READONLY, 0, 0, NULL);
    if (!map) {
        fail();
        return false;
    }
    VirtualFree(space, 0, MEM_RELEASE);
    const bool shown = MapViewOfFileEx(map, FILE_MAP_READ, 0, 0, 0, space);
    if (!shown) {
        fail();
        VirtualAlloc(space, size, MEM_RESERVE, PAGE_READWRITE);
    }
    CloseHandle(map);
    return shown;
}

bool
vae_os_hide_file(void *space, size_t size)
{
    UnmapViewOfFile(space);
    return VirtualAlloc(space, size, MEM_RESERVE, PAGE_READWRITE) != NULL;
}

void
vae_os_unreserve(void *space, size_t size)
{
    MEMORY_BASIC_INFORMATION info;
    if (VirtualQuery(space, &info, sizeof info) == 0 ||
        info.AllocationBase != space)
        return;
    if (info.Type == MEM_MAPPED)
        UnmapViewOfFile(space);
    else
        VirtualFree(space, 0, MEM_RELEASE);
}

bool
vae_os_commit(void *part, size_t size)
{
    return VirtualAlloc(part, size, MEM_COMMIT, PAGE_READWRITE) != NULL;
}

void
vae_os_decommit(void *part, size_t size)
{
    VirtualFree(part, size, MEM_DECOMMIT);
}

size_t
vae_os_page(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

void *
vae_os_pages(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void
vae_os_pages_free(void *pages, size_t bytes)
{
    VirtualFree(pages, 0, MEM_RELEASE);
}

void
vae_os_pages_keep(void *pages, size_t bytes)
{
}

void
vae_os_touch(void *part, size_t bytes)
{
    const size_t page = vae_os_page();
    for (size_t i = 0; i < bytes; i += page)
        ((volatile uint8_t *) part)[i] = 0;
}

void *
vae_os_heap(size_t alignment, size_t bytes)
{
    return _aligned_malloc(bytes, alignment);
}

void
vae_os_heap_free(void *block)
{
    _aligned_free(block);
}

/* If programs commit more than the memory, Windows writes pages to the disk. */
uint64_t
vae_os_memory_left(void)
{
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    if (!GlobalMemoryStatusEx(&m))
        return UINT64_MAX;
    return m.ullAvailPhys < m.ullAvailPageFile ? m.ullAvailPhys
                                               : m.ullAvailPageFile;
}

uint64_t
vae_os_own_limit_left(void)
{
    return UINT64_MAX; /* ullAvailPageFile obeys the limit of a job */
}

uint64_t
vae_os_stack_size(void)
{
    return 0;
}
