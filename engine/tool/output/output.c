/*
 * output.c: writes files that are too long for memory.
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"
#include "vae-private/os.h"

static VaeStatus
system_error(VaeError *error, const char *path, const char *doing)
{
    const int code = errno;
    const bool full = vae_os_is_full(code) || code == EFBIG;
    const VaeStatus status = full             ? VAE_ERR_NO_SPACE
                             : code == ENOMEM ? VAE_ERR_MEMORY
                                              : VAE_ERR_WRITE;
    return vae_fail(error, status, "%s: cannot %s: %s", path, doing,
                    strerror(code));
}

static VaeStatus
write_at(Output *out, uint64_t offset, const void *data, size_t size,
         VaeError *error)
{
    const char *from = data;
    assert(!out->pipe || offset == out->at);
    out->at = offset + size;
    while (size > 0) {
        const ssize_t n = out->pipe
                              ? vae_os_write(out->fd, from, size)
                              : vae_os_write_at(out->fd, from, size, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error(error, out->path, "write");
        from += n;
        offset += (uint64_t) n;
        size -= (size_t) n;
    }
    return VAE_OK;
}

static const char *
target_of(const Output *out)
{
    return out->target ? out->target : out->path;
}

/* *in_place: true for a file that is written in place, such as a device; false
 * for one that is created or replaced. Fails for a folder. */
static VaeStatus
check_kind(const char *path, bool *in_place, VaeError *error)
{
    VaeFileFacts facts;
    *in_place = true;
    if (strcmp(path, "-") == 0)
        return isatty(STDOUT_FILENO)
                   ? vae_fail(error, VAE_ERR_WRITE,
                              "-: standard output is a terminal, expected a "
                              "pipe or a file")
                   : VAE_OK;
    const bool exists = vae_os_facts(path, &facts);
    *in_place = exists && facts.kind != VAE_FILE_REGULAR;
    if (!exists && errno != ENOENT)
        return system_error(error, path, "create");
    if (exists && facts.kind == VAE_FILE_FOLDER)
        return vae_fail(error, VAE_ERR_WRITE, "%s: is a directory", path);
    return VAE_OK;
}

VaeStatus
output_check_place(const char *path, const char *why_no_pipe, VaeError *error)
{
    bool in_place;
    VaeStatus status = check_kind(path, &in_place, error);
    if (status == VAE_OK && why_no_pipe && output_is_pipe(path))
        status =
            vae_fail(error, VAE_ERR_WRITE, "%s: is a pipe, expected a file, %s",
                     path, why_no_pipe);
    if (status != VAE_OK || strcmp(path, "-") == 0)
        return status;
    char *target = vae_os_real_path(path); /* the target's folder counts */
    const char *file = target ? target : path;
    char *place = in_place ? strdup(file) : vae_os_folder_of(file);
    free(target);
    if (!place)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", path);
    if (!vae_os_may_write(place, !in_place))
        status = system_error(error, path, "create");
    free(place);
    return status;
}

/* Creates a temporary file next to the old one, or opens the device. */
static VaeStatus
open_file(Output *out, VaeError *error)
{
    bool in_place;
    const VaeStatus status = check_kind(out->path, &in_place, error);
    if (status != VAE_OK)
        return status;
    out->pipe = in_place && output_is_pipe(out->path);
#ifdef SIGPIPE
    if (out->pipe)
        signal(SIGPIPE, SIG_IGN); /* a reader that ends is an error */
#endif
    if (strcmp(out->path, "-") == 0) {
        out->fd = dup(STDOUT_FILENO);
    } else if (in_place) {
        out->fd = vae_os_open(out->path, VAE_OPEN_WRITE);
    } else {
        char *name;
        out->target = vae_os_real_path(out->path); /* keeps a link */
        if (!out->target && errno != ENOENT)
            return system_error(error, out->path, "create");
        if (asprintf(&name, "%s.part%ld", target_of(out), (long) getpid()) < 0)
            return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", out->path);
        out->fd = vae_os_open(name, VAE_OPEN_WRITE | VAE_OPEN_CREATE |
                                        VAE_OPEN_EMPTY);
        if (out->fd >= 0)
            out->temporary = name;
        else
            free(name);
    }
    if (out->fd < 0)
        return system_error(error, out->path, "create");
    return VAE_OK;
}

VaeStatus
output_check_resume(const char *path, const VaeTensorFile *input,
                    const VaeModel *model, VaeError *error)
{
    static const char *const endings[] = {".part", ".checkpoint",
                                          ".checkpoint.tmp"};
    char *target = vae_os_real_path(path);
    VaeStatus status = VAE_OK;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        char *name;
        if (asprintf(&name, "%s%s", i == 0 && target ? target : path,
                     endings[i]) < 0) {
            status = vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", path);
            break;
        }
        status = vae_model_check_output(model, input, name, error);
        free(name);
        if (status != VAE_OK)
            break;
    }
    free(target);
    return status;
}

/* Makes the header's bytes, which the caller frees. */
static VaeStatus
make_header(Output *out, const OutputHead *head, void **bytes, VaeError *error)
{
    size_t size;
    VaeError inner = {0};
    const VaeStatus status = output_head(head, bytes, &size, &inner);
    if (status != VAE_OK)
        return vae_fail(error, status, "%s: %s", out->path, inner.message);
    out->begin = size;
    return VAE_OK;
}

VaeStatus
output_open(Output *out, const char *path, const OutputHead *head,
            VaeError *error)
{
    void *bytes;
    *out = (Output){.fd = -1, .path = path};
    VaeStatus status = make_header(out, head, &bytes, error);
    if (status != VAE_OK)
        return status;
    status = open_file(out, error);
    if (status == VAE_OK)
        status = write_at(out, 0, bytes, out->begin, error);
    free(bytes);
    if (status != VAE_OK)
        output_close(out);
    return status;
}

/* Opens OUT.part for output_resume(). */
static VaeStatus
open_part(Output *out, bool go_on, VaeError *error)
{
    VaeFileFacts facts;
    if (vae_os_facts(out->path, &facts) && facts.kind != VAE_FILE_REGULAR)
        return vae_fail(error, VAE_ERR_WRITE,
                        "%s: is no regular file, and --resume needs one",
                        out->path);
    out->target = vae_os_real_path(out->path);
    if (!out->target && errno != ENOENT)
        return system_error(error, out->path, "create");
    if (asprintf(&out->temporary, "%s.part", target_of(out)) < 0) {
        out->temporary = NULL;
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", out->path);
    }
    out->fd = vae_os_open(out->temporary, VAE_OPEN_READ | VAE_OPEN_WRITE |
                                              VAE_OPEN_NO_WAIT |
                                              (go_on ? 0 : VAE_OPEN_CREATE));
    if (out->fd < 0 && go_on && errno == ENOENT)
        return vae_fail(error, VAE_ERR_NOT_FOUND,
                        "%s: is not there, but there is a checkpoint; remove "
                        "the checkpoint to start again",
                        out->temporary);
    if (out->fd < 0)
        return system_error(error, out->temporary, "open");
    if (!vae_os_lock(out->fd))
        return vae_fail(error, VAE_ERR_WRITE,
                        "%s: another process is writing it", out->temporary);
    /* Another process may have renamed it before the lock. */
    if (!vae_os_facts_of(out->fd, &facts) || facts.kind != VAE_FILE_REGULAR ||
        !vae_os_is_file(out->temporary, &facts))
        return vae_fail(error, VAE_ERR_WRITE,
                        "%s: is no regular file, or another process has just "
                        "completed it",
                        out->temporary);
    return VAE_OK;
}

/* Finds out if OUT.part has another header. A new run may have left a part of
 * its header. */
static VaeStatus
check_header(Output *out, const void *header, bool go_on, VaeError *error)
{
    const size_t size = out->begin;
    void *found = malloc(size);
    if (!found)
        return vae_fail(error, VAE_ERR_MEMORY, "%s: no memory", out->path);
    const ssize_t n = vae_os_read_at(out->fd, found, size, 0);
    out->foreign = n < 0 || (go_on && n != (ssize_t) size) ||
                   memcmp(found, header, (size_t) n) != 0;
    free(found);
    return VAE_OK;
}

/* Begins OUT.part again. */
static VaeStatus
start_again(Output *out, const void *header, VaeError *error)
{
    if (out->foreign)
        return vae_fail(error, VAE_ERR_WRITE,
                        "%s: exists without a checkpoint, and is not the "
                        "unfinished output of this command; remove it, or "
                        "write to another file",
                        out->temporary);
    if (vae_os_cut(out->fd, 0) != 0)
        return system_error(error, out->temporary, "cut");
    return write_at(out, 0, header, out->begin, error);
}

VaeStatus
output_resume(Output *out, const char *path, const OutputHead *head, bool go_on,
              VaeError *error)
{
    void *bytes;
    *out = (Output){.fd = -1, .path = path, .keep = true};
    VaeStatus status = make_header(out, head, &bytes, error);
    if (status != VAE_OK)
        return status;
    status = open_part(out, go_on, error);
    if (status == VAE_OK)
        status = check_header(out, bytes, go_on, error);
    if (status == VAE_OK && !go_on)
        status = start_again(out, bytes, error);
    free(bytes);
    return status;
}

VaeStatus
output_cut(Output *out, uint64_t bytes, VaeError *error)
{
    VaeFileFacts facts;
    const uint64_t whole = out->begin + bytes;
    if (out->foreign)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: is not what this command writes: another size, "
                        "frame rate or pixel range; vaetool info "
                        "%s.checkpoint prints the command that continues it; "
                        "remove the checkpoint to start again",
                        out->temporary, out->path);
    if (!vae_os_facts_of(out->fd, &facts))
        return system_error(error, out->temporary, "read the size of");
    if (facts.size < whole)
        return vae_fail(error, VAE_ERR_FORMAT,
                        "%s: has %llu bytes, the checkpoint says %llu; remove "
                        "the checkpoint to start again",
                        out->temporary, (unsigned long long) facts.size,
                        (unsigned long long) whole);
    if (vae_os_cut(out->fd, whole) != 0)
        return system_error(error, out->temporary, "cut");
    return VAE_OK;
}

VaeStatus
output_sync(Output *out, VaeError *error)
{
    return vae_os_sync(out->fd, true) == 0
               ? VAE_OK
               : system_error(error, out->path, "write");
}

VaeStatus
output_write(Output *out, uint64_t offset, const void *data, size_t size,
             VaeError *error)
{
    return write_at(out, out->begin + offset, data, size, error);
}

/* A file that is kept stays open, and so locked, until it has its name. */
VaeStatus
output_commit(Output *out, VaeError *error)
{
    if (out->keep && vae_os_sync(out->fd, false) != 0)
        return system_error(error, out->path, "write");
    if (!out->keep) {
        const int fd = out->fd;
        out->fd = -1;
        /* Some file systems report a full disk only here. */
        if (close(fd) != 0)
            return system_error(error, out->path, "write");
    }
    if (out->temporary && vae_os_rename(out->temporary, target_of(out)) != 0)
        return errno == ENOENT ? system_error(error, out->temporary, "rename")
                               : system_error(error, out->path, "replace");
    free(out->temporary);
    out->temporary = NULL;
    return VAE_OK;
}

void
output_close(Output *out)
{
    if (out->fd >= 0)
        close(out->fd);
    if (out->temporary && !out->keep)
        vae_os_remove(out->temporary);
    free(out->temporary);
    free(out->target);
    out->temporary = out->target = NULL;
    out->fd = -1;
}
