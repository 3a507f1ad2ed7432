/*
 * offload.c: frees the memory of a device, and allocates it again.
 */
#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "alloc.h"
#include "arguments.h"
#include "clock.h"
#include "stream.h"

/* Returns the first error. */
static VaeStatus
offload_all(VaeStream *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = 0; i < PROGRAMS; i++) {
        if (!s->execs[i])
            continue;
        const VaeStatus one = s->class->bind(s->backend, s->execs[i], NULL,
                                             status == VAE_OK ? error : NULL);
        status = status == VAE_OK ? one : status;
    }
    vae_stream_free_memory(s);
    return status;
}

VaeStatus
vae_stream_offload(VaeStream *s, VaeError *error)
{
    VaeStatus status = VAE_OK;
    if (s->stats.released || !s->class->memory_left)
        return VAE_OK;
    /* A new or broken sequence has no carries to keep. The carries of tiles are
     * already in host memory. */
    if (s->at.next != FIRST && !s->at.broken && !vae_stream_has_tiles(s))
        status = vae_carries_offload(&s->carries, error);
    if (status != VAE_OK)
        return status;
    s->stats.released = true;
    return offload_all(s, error);
}

/* Allocates the memory again and copies weights and carries back. After an
 * error everything is offloaded. */
static VaeStatus
allocate_again(VaeStream *s, VaeError *error)
{
    VaeStatus status;
    if (!s->programs[FIRST]) { /* the programs were dropped for a smaller slice
                                  size */
        status = vae_stream_take(s, error);
        if (status != VAE_OK)
            return status;
    } else {
        status = vae_stream_take_memory(s, error);
    }
    if (status == VAE_OK)
        status = vae_carries_reload(&s->carries, error);
    if (status != VAE_OK)
        offload_all(s, NULL);
    return status;
}

/* A wait for memory that other programs use. */
typedef struct Patience {
    uint64_t start, ns; /* when it began, and its longest duration */
} Patience;

#define PAUSE_NS 20000000 /* pause between two attempts */

/* Waits for PAUSE_NS. False: the time is over. */
static bool
wait_for_others(VaeStream *s, Patience *p, const VaeError *why)
{
    const VaeLog log = {s->params.log, s->params.log_user};
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (!p->start) {
        p->start = vae_now_ns();
        p->ns = (uint64_t) s->params.resume_ms * 1000000;
        if (p->ns)
            vae_log(&log, "waits up to %.1f s for memory: %s",
                    (double) p->ns / 1e9, why->message);
    }
    if (atomic_load(&s->cancel) || vae_now_ns() - p->start >= p->ns)
        return false;
    nanosleep(&pause, NULL);
    return true;
}

/* The error of a stream that cannot allocate its memory again. */
static VaeStatus
not_resumed(VaeStream *s, VaeStatus status, const Patience *p,
            const VaeError *why, VaeError *error)
{
    uint64_t left = 0;
    char waited[40] = "", is_free[60] = "";
    if (p->ns)
        snprintf(waited, sizeof waited, " within %.1f s", (double) p->ns / 1e9);
    if (status == VAE_ERR_MEMORY && s->class->memory_left &&
        s->class->memory_left(s->backend, &left, NULL) == VAE_OK)
        snprintf(is_free, sizeof is_free, " (%.1f MiB are free)",
                 (double) left / 1048576);
    return vae_fail(error, status,
                    "the device's memory (%.1f MiB) was freed and cannot be "
                    "allocated again%s: %s%s",
                    (double) s->plan.total / 1048576, waited, why->message,
                    is_free);
}

VaeStatus
vae_stream_resume(VaeStream *s, VaeError *error)
{
    VaeError why = {0};
    Patience patience = {0};
    VaeStatus status = vae_check_pointers(error, "stream", s);
    if (status != VAE_OK || !s->stats.released)
        return status;
    const int tiles = s->plan.tiles;
    do
        status = allocate_again(s, &why);
    while (status == VAE_ERR_MEMORY && (vae_stream_step_down(s, &why) ||
                                        wait_for_others(s, &patience, &why)));
    if (status == VAE_ERR_MEMORY && vae_stream_goes_on(s, &why) != VAE_OK)
        status = VAE_ERR_CANCELLED;
    if (status == VAE_ERR_MEMORY && patience.ns && atomic_load(&s->cancel)) {
        s->at.broken = true;
        return vae_fail(error, VAE_ERR_CANCELLED,
                        "the wait for memory of the device was cancelled");
    }
    if (status != VAE_OK)
        return not_resumed(s, status, &patience, &why, error);
    s->stats.released = false;
    if (s->plan.tiles > tiles)
        vae_stream_warn_of_setting(s);
    return VAE_OK;
}
