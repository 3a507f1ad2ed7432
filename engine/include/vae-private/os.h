/*
 * vae-private/os.h: calls of the operating system that differ between systems.
 * engine/base/os has a file for each kind of system. Paths are UTF-8. A
 * function that fails returns -1, NULL or false and sets errno, unless its
 * comment says otherwise. free() frees the strings. vaetool and the plugin use
 * those that VAE_API exports.
 */
#ifndef VAE_PRIVATE_OS_H
#define VAE_PRIVATE_OS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "vae/status.h"

/* ------------------------------------------------------------------ */
/* Files.                                                              */

enum {
    VAE_OPEN_READ = 1,
    VAE_OPEN_WRITE = 2,
    VAE_OPEN_CREATE = 4,  /* unless it exists */
    VAE_OPEN_NEW = 8,     /* creates it; fails if it exists */
    VAE_OPEN_EMPTY = 16,  /* removes the content */
    VAE_OPEN_NO_WAIT = 32 /* does not wait for the writer of a pipe */
};

/* Returns a descriptor for close(). Child processes do not inherit it. The open
 * file can be renamed and removed. */
VAE_API int vae_os_open(const char *path, unsigned how);
/* For reading, without a conversion of line ends. */
VAE_API FILE *vae_os_fopen(const char *path);
/* These may transfer fewer bytes than n. */
VAE_API ssize_t vae_os_read_at(int fd, void *to, size_t n, uint64_t offset);
VAE_API ssize_t vae_os_write_at(int fd, const void *from, size_t n,
                                uint64_t offset);
VAE_API ssize_t vae_os_write(int fd, const void *from, size_t n);
/* Sets the size. */
VAE_API int vae_os_cut(int fd, uint64_t size);
/* Waits until the disk has the content. EINVAL: the file system cannot tell.
 * content: not the times of the file. */
VAE_API int vae_os_sync(int fd, bool content);
/* Opens the folder of a file for vae_os_sync(). */
int vae_os_open_folder_of(const char *path);
/* Locks the file until it is closed. False: another process has the lock. True
 * also if the file system has no locks. */
VAE_API bool vae_os_lock(int fd);
/* True if another opening of the file has the lock. */
VAE_API bool vae_os_is_locked(const char *path);
/* Replaces `to`, also if it is open. */
VAE_API int vae_os_rename(const char *from, const char *to);
VAE_API int vae_os_remove(const char *path);
/* True for the errno of a full disk. */
VAE_API bool vae_os_is_full(int code);

typedef enum VaeFileKind {
    VAE_FILE_REGULAR,
    VAE_FILE_FOLDER,
    VAE_FILE_PIPE,
    VAE_FILE_OTHER
} VaeFileKind;

typedef struct VaeFileFacts {
    VaeFileKind kind;
    uint64_t size;
    uint64_t volume, number; /* the same for all paths of a file */
    uint64_t written;        /* the time of the last write */
} VaeFileFacts;

VAE_API bool vae_os_facts(const char *path, VaeFileFacts *out);
VAE_API bool vae_os_facts_of(int fd, VaeFileFacts *out);
VAE_API bool vae_os_is_kind(const char *path, VaeFileKind kind);
/* True if that path leads to the file. */
VAE_API bool vae_os_is_file(const char *path, const VaeFileFacts *file);
/* True if the process may write the file, or create files in the folder. */
VAE_API bool vae_os_may_write(const char *path, bool folder);
/* Calls see() with the name of each file in a folder. */
void vae_os_list(const char *folder, void (*see)(void *user, const char *name),
                 void *user);

/* ------------------------------------------------------------------ */
/* Paths.                                                              */

/* The path without links, with '/' between folders. */
VAE_API char *vae_os_real_path(const char *path);
/* The target of a symbolic link that leads nowhere; NULL for any other path. */
char *vae_os_broken_link(const char *path);
/* The part of the path after its last folder. */
VAE_API const char *vae_os_file_name(const char *path);
/* The path of its folder, "." if it names none. */
VAE_API char *vae_os_folder_of(const char *path);
/* NULL if it is not set, or if the process has more rights than its user. */
char *vae_os_environment(const char *name);
/* The data folder of the user, if there is one, and those of the system after
 * it; NULL after the last one. On POSIX by the XDG rules. */
char *vae_os_data_folder(int i);
/* The user's folder for files that can be made again; NULL: there is none. */
char *vae_os_cache_folder(void);
/* Makes a folder for its user only. */
int vae_os_make_folder(const char *path);

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

/* Address space without memory. */
void *vae_os_reserve(size_t size);
/* Shows the whole file, read-only, in its reserved space. */
bool vae_os_show_file(void *space, size_t size, int fd);
/* Replaces the file by reserved space without memory. */
bool vae_os_hide_file(void *space, size_t size);
void vae_os_unreserve(void *space, size_t size);
/* Provides memory for a part of reserved space. What is there stays. */
bool vae_os_commit(void *part, size_t size);
/* Gives the memory of whole pages back. */
void vae_os_decommit(void *part, size_t size);
size_t vae_os_page(void);

/* Zeroed pages, which the system may provide when they are first written. */
void *vae_os_pages(size_t bytes);
void vae_os_pages_free(void *pages, size_t bytes);
/* A child of fork() does not get these whole pages. */
void vae_os_pages_keep(void *pages, size_t bytes);
/* Makes the system provide the pages of a part now. All of it is 0. */
void vae_os_touch(void *part, size_t bytes);
/* Memory of the heap; bytes is a multiple of the alignment. */
void *vae_os_heap(size_t alignment, size_t bytes);
void vae_os_heap_free(void *block);

/* Bytes that are available without swapping, also in the process's groups;
 * UINT64_MAX if unknown. */
uint64_t vae_os_memory_left(void);
/* Bytes that the process's own limits leave; UINT64_MAX: no limit. */
uint64_t vae_os_own_limit_left(void);
/* The limit of a thread's stack; 0 if unknown. */
uint64_t vae_os_stack_size(void);

/* cgroup.c, for Linux: the bytes that the control groups in the file `own`, in
 * the format of /proc/self/cgroup, leave to a process. UINT64_MAX: none has a
 * limit. mount: /sys/fs/cgroup, or another folder for tests. */
uint64_t vae_cgroup_left(const char *own, const char *mount);

/* ------------------------------------------------------------------ */
/* Modules, processors, threads, the console.                          */

/* Loads a library for good. On failure `why` receives the reason. */
void *vae_os_module(const char *path, char *why, size_t size);
/* The same, but functions that it does not find fail when they are called. */
void *vae_os_module_lazily(const char *path, char *why, size_t size);
void *vae_os_module_symbol(void *module, const char *name);
/* The path of the program or library that holds the address; NULL if unknown.
 */
VAE_API char *vae_os_module_of(const void *address);

/* Logical processors that the process may use; at least 1. */
int vae_os_processors(void);
/* False if the system does not let the process use the tiles of AMX. True if it
 * does, and on a POSIX system, where oneDNN itself asks for them. */
bool vae_os_allow_amx(void);
void vae_os_processor_name(char *out, size_t size);
/* For Linux: copies the name of the first processor from a file such as
 * /proc/cpuinfo. */
bool vae_processor_name(const char *path, char *out, size_t size);

/* Starts a thread that handles no signals. Returns 0 or an error number. */
int vae_os_thread(pthread_t *thread, void *(*run)(void *), void *user);
/* A clock that stops while the calling thread does not run, if the system has a
 * precise one. */
double vae_os_thread_seconds(void);

/* Ctrl-C, and what else asks the process to end, calls `handler`, but ends the
 * process the second time. The handler may only set a variable and post a
 * semaphore. */
VAE_API void vae_os_catch_interrupts(void (*handler)(int number));
VAE_API void vae_os_release_interrupts(void);

#endif
