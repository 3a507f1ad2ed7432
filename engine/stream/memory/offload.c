/*
 * offload.c: allocates the memory of a stream, frees that of a device, and
 * allocates it again.
 */
#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "alloc.h"
#include "arguments.h"
#include "clock.h"
#include "stream.h"

/* Divides the memory of vae_machine_held_bytes(). n: results of a tile. */
static void
place_results(VaeStream *s, int n)
{
    VaeWindow *w = &s->window;
    const VaeTileLatents tile = vae_tile_latents(s->main.params.tile_plan);
    const size_t size = vae_machine_unit_floats(&s->main);
    const int blended = s->steps.step_out * (tile.size - 1 - tile.stride);
    w->last = w->results + (size_t) n * size;
    w->moments = w->last + (size_t) blended * size;
    w->pictures = (uint8_t *) (w->moments + size);
}

/* Allocates the memory for units of a run of the main machine. */
static VaeStatus
take_units(VaeStream *s, VaeError *error)
{
    const VaeProgram *p = s->main.programs[NEXT];
    const VaeStatus status = vae_stream_guard_take(s, error);
    const size_t held = vae_machine_held_bytes(&s->main);
    const bool decode = s->main.params.direction == VAE_DECODE;
    const bool latents = decode && (s->main.model->windows.size || held);
    const int pictures = decode ? p->n_out : p->n_in;
    if (status != VAE_OK ||
        (!p->delayed && !s->main.model->info.chunk && !held))
        return status;
    vae_mem_free(s->slots);
    vae_mem_free(s->no_latents);
    s->slots = vae_mem_alloc((size_t) pictures * sizeof *s->slots);
    s->no_latents = vae_mem_alloc((size_t) p->n_in * sizeof *s->no_latents);
    if (latents && !s->window.data)
        s->window.data = vae_mem_alloc(
            VAE_WINDOW_ROOM * vae_stream_latent_elements(s) * sizeof(float));
    if (held && !s->window.results)
        s->window.results = vae_mem_alloc(held);
    if (s->window.results)
        place_results(s, p->n_out);
    return s->slots && s->no_latents && (s->window.data || !latents) &&
                   (s->window.results || !held)
               ? VAE_OK
               : vae_fail(error, VAE_ERR_MEMORY, "out of memory");
}

/* After an error the programs of the machine are dropped. */
static VaeStatus
take(VaeStream *s, VaeMachine *m, VaeError *error)
{
    VaeStatus status = vae_machine_take(m, error);
    if (status != VAE_OK || m != &s->main)
        return status;
    status = take_units(s, error);
    if (status != VAE_OK) {
        vae_machine_free_memory(m);
        vae_machine_drop_programs(m);
    }
    return status;
}

/* Other programs and libraries may have used memory since the rung was chosen.
 * The rest may be enough for a smaller rung. */
VaeStatus
vae_stream_make(VaeStream *s, VaeError *error)
{
    VaeMachine *m = &s->main;
    VaeError why = {0};
    VaeStatus status;
    do {
        status = take(s, m, &why);
        if (status != VAE_OK || !m->wide)
            continue;
        status = take(s, m->wide, &why);
        if (status != VAE_OK)
            vae_machine_free_memory(m);
    } while (status == VAE_ERR_MEMORY && vae_machine_step_down(m, false, &why));
    if (status == VAE_ERR_MEMORY && vae_machine_goes_on(m, &why) != VAE_OK)
        status = VAE_ERR_CANCELLED;
    if (error && status != VAE_OK)
        *error = why;
    return status;
}

/* Returns the first error. */
static VaeStatus
offload_all(VaeMachine *m, VaeError *error)
{
    VaeStatus status = VAE_OK;
    for (int i = 0; i < PROGRAMS; i++) {
        if (!m->execs[i])
            continue;
        const VaeStatus one = m->class->bind(m->backend, m->execs[i], NULL,
                                             status == VAE_OK ? error : NULL);
        status = status == VAE_OK ? one : status;
    }
    vae_machine_free_memory(m);
    return status;
}

/* latents: of the history to keep. */
static VaeStatus
offload(VaeMachine *m, bool keep, uint64_t latents, VaeError *error)
{
    VaeStatus status = VAE_OK;
    if (m->released || !m->class->memory_left)
        return VAE_OK;
    if (keep)
        status = vae_history_offload(&m->history, latents, error);
    if (keep && status == VAE_OK)
        status = vae_carries_offload(&m->carries, error);
    if (status != VAE_OK)
        vae_history_forget(&m->history);
    if (status != VAE_OK)
        return status;
    m->released = true;
    return offload_all(m, error);
}

/* A new or broken sequence has no carries to keep. Carries of tiles are already
 * in host memory. Those of the second machine count only while this machine
 * computes alone. */
VaeStatus
vae_stream_offload(VaeStream *s, VaeError *error)
{
    VaeMachine *m = &s->main;
    VaeStatus status = VAE_OK;
    const bool keep = s->at.next != FIRST && !s->at.broken;
    if (m->wide)
        status = offload(m->wide, keep && s->at.in_fallback, 0, error);
    if (status == VAE_OK)
        status = offload(m, keep && !vae_machine_has_tiles(m),
                         vae_sequence_length(&s->at), error);
    s->stats.released = m->released;
    return status;
}

/* Allocates the memory again and copies weights and carries back. After an
 * error everything is offloaded. */
static VaeStatus
allocate_again(VaeStream *s, VaeMachine *m, VaeError *error)
{
    VaeStatus status;
    if (!m->programs[FIRST]) { /* dropped for a smaller slice size */
        status = take(s, m, error);
        if (status != VAE_OK)
            return status;
    } else {
        status = vae_machine_take_memory(m, error);
    }
    if (status == VAE_OK)
        status = vae_history_reload(&m->history, error);
    if (status == VAE_OK)
        status = vae_carries_reload(&m->carries, error);
    if (status != VAE_OK)
        offload_all(m, NULL);
    return status;
}

/* A wait for memory that other programs use. */
typedef struct Patience {
    uint64_t start, ns; /* begin of the wait, and its longest duration */
} Patience;

#define PAUSE_NS 20000000 /* pause between two attempts */

/* Waits for PAUSE_NS. False: the time is over. */
static bool
wait_for_others(VaeStream *s, Patience *p, const VaeError *why)
{
    const VaeLog log = {s->main.params.log, s->main.params.log_user};
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    if (!p->start) {
        p->start = vae_now_ns();
        p->ns = (uint64_t) s->main.params.resume_ms * 1000000;
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
not_resumed(const VaeMachine *m, VaeStatus status, const Patience *p,
            const VaeError *why, VaeError *error)
{
    uint64_t left = 0;
    char waited[40] = "", is_free[60] = "";
    if (p->ns)
        snprintf(waited, sizeof waited, " within %.1f s", (double) p->ns / 1e9);
    if (status == VAE_ERR_MEMORY && m->class->memory_left &&
        m->class->memory_left(m->backend, &left, NULL) == VAE_OK)
        snprintf(is_free, sizeof is_free, " (%.1f MiB are free)",
                 (double) left / 1048576);
    return vae_fail(error, status,
                    "the device's memory (%.1f MiB) was freed and cannot be "
                    "allocated again%s: %s%s",
                    (double) m->plan.total / 1048576, waited, why->message,
                    is_free);
}

VaeStatus
vae_stream_take_back(VaeStream *s, VaeMachine *m, VaeError *error)
{
    VaeError why = {0};
    Patience patience = {0};
    VaeStatus status = VAE_OK;
    if (!m->released)
        return status;
    const int tiles = m->plan.tiles;
    do
        status = allocate_again(s, m, &why);
    while (status == VAE_ERR_MEMORY &&
           (vae_machine_step_down(m, s->at.next != FIRST, &why) ||
            wait_for_others(s, &patience, &why)));
    if (status == VAE_ERR_MEMORY && vae_machine_goes_on(m, &why) != VAE_OK)
        status = VAE_ERR_CANCELLED;
    if (status == VAE_ERR_MEMORY && patience.ns && atomic_load(&s->cancel)) {
        s->at.broken = true;
        return vae_fail(error, VAE_ERR_CANCELLED,
                        "the wait for memory of the device was cancelled");
    }
    if (status != VAE_OK)
        return not_resumed(m, status, &patience, &why, error);
    m->released = false;
    if (m->plan.tiles > tiles)
        vae_machine_warn_of_setting(m);
    return VAE_OK;
}

VaeStatus
vae_stream_resume(VaeStream *s, VaeError *error)
{
    VaeStatus status = vae_check_pointers(error, "stream", s);
    if (status == VAE_OK)
        status = vae_stream_take_back(s, &s->main, error);
    if (status == VAE_OK)
        s->stats.released = false;
    return status;
}
