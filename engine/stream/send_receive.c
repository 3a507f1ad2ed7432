/*
 * send_receive.c: units in and out one at a time.
 *
 * Sent units are copied until there are enough for a slice. The network writes
 * the first unit of a slice to the receiver's memory; the others wait in
 * copies.
 */
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "pixels.h"
#include "sized.h"
#include "vae-private/spaces.h"
#include "waiting.h"

/* ------------------------------------------------------------------ */
/* Units.                                                              */

/* Sets *out to a packed unit of that kind at address `at`. Returns its bytes.
 */
static size_t
place(const VaeStream *s, const Unit *kind, uintptr_t at, Unit *out)
{
    const uintptr_t start = at;
    *out = *kind;
    if (kind->is_picture) {
        at += vae_picture_pack(&kind->picture, at, &out->picture);
    } else {
        const size_t n = vae_stream_latent_elements(s);
        float **const heads[] = {&out->latent.mean, &out->latent.logvar};
        for (int i = 0; i < 2; i++)
            if (*heads[i]) {
                *heads[i] = (float *) at;
                at += n * sizeof(float);
            }
        out->latent.data = (void *) at;
        at += n * vae_type_size(kind->latent.type);
    }
    return (at - start + 63) / 64 * 64;
}

static Unit
copy_at(const VaeStream *s, const Side *side, int i)
{
    Unit unit;
    place(s, &side->kind,
          (uintptr_t) side->room.block + (size_t) i * side->slot, &unit);
    return unit;
}

static void
copy(const VaeStream *s, const Unit *to, const Unit *from)
{
    if (!from->is_picture) {
        const size_t n = vae_stream_latent_elements(s);
        memcpy(to->latent.data, from->latent.data,
               n * vae_type_size(to->latent.type));
        if (to->latent.mean && from->latent.mean)
            memcpy(to->latent.mean, from->latent.mean, n * sizeof(float));
        if (to->latent.logvar && from->latent.logvar)
            memcpy(to->latent.logvar, from->latent.logvar, n * sizeof(float));
        return;
    }
    if (to->picture.data[0])
        vae_picture_copy(&to->picture, &from->picture);
}

/* True if both units have the same type or format. */
static bool
same_kind(const Unit *x, const Unit *y)
{
    if (x->is_picture)
        return vae_picture_same_format(&x->picture, &y->picture);
    return x->latent.type == y->latent.type &&
           !x->latent.mean == !y->latent.mean &&
           !x->latent.logvar == !y->latent.logvar;
}

static VaeStatus
check_unit(const VaeStream *s, const Unit *unit, VaeError *error)
{
    const VaePicture *p = &unit->picture;
    const VaeLatentOut *l = &unit->latent;
    if (!unit->is_picture)
        return vae_stream_check_latent(l->type, l->data, error);
    if (p->on_device)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "device memory", "host memory"},
            "pictures in the memory of a device are for the calls that "
            "compute whole steps, such as vae_stream_decode()");
    return vae_stream_check_pictures(s, p, 1, error);
}

/* Writes what same_kind() compares. */
static void
describe(const Unit *unit, char *out, size_t size)
{
    const VaePicture *p = &unit->picture;
    const VaeLatentOut *l = &unit->latent;
    if (unit->is_picture)
        snprintf(out, size, "pixels %d, matrix %d, range %d, %d, sites %d, %d",
                 (int) p->pixels, (int) p->matrix, p->full_range,
                 p->limited_rgb, p->site_center, p->site_top);
    else
        snprintf(out, size, "%s%s%s", vae_type_name(l->type),
                 l->mean ? ", mean" : "", l->logvar ? ", logvar" : "");
}

static VaeStatus
fail_kind(const Unit *first, const Unit *unit, VaeError *error)
{
    char found[80], expected[80];
    describe(unit, found, sizeof found);
    describe(first, expected, sizeof expected);
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "the %s is not like the first of the sequence: found {%s}, expected "
        "{=%s}",
        unit->is_picture ? "picture" : "latent", found, expected);
}

/* ------------------------------------------------------------------ */
/* Memory.                                                             */

static int
larger(int a, int b)
{
    return a > b ? a : b;
}

static int
most_in(const VaeStream *s)
{
    return larger(s->steps.first_in,
                  s->main.plan.slice_size * s->steps.step_in);
}

static int
most_out(const VaeStream *s)
{
    return larger(s->steps.first_out,
                  s->main.plan.slice_size * s->steps.step_out) +
           s->main.model->info.held;
}

static void
clear(VaeWaiting *w, uint64_t sequence)
{
    w->sequence = sequence;
    w->sent = w->made = w->given = 0;
    w->most = w->repeated = 0;
    w->ended = w->in.known = w->out.known = false;
}

void
vae_stream_free_waiting(VaeStream *s)
{
    VaeWaiting *w = s->waiting;
    if (!w)
        return;
    vae_room_free(&w->in.room);
    vae_room_free(&w->out.room);
    vae_mem_free(w->latents_in);
    vae_mem_free(w->latents_out);
    vae_mem_free(w->pictures);
    vae_mem_free(w);
    s->waiting = NULL;
}

static VaeStatus
make_waiting(VaeStream *s, VaeError *error)
{
    const size_t n = (size_t) larger(most_in(s), most_out(s));
    VaeWaiting *w = s->waiting;
    if (w && w->sequence != s->sequences)
        clear(w, s->sequences);
    if (w && w->room >= n)
        return VAE_OK;
    vae_stream_free_waiting(s);
    w = s->waiting = vae_mem_alloc(sizeof *w);
    if (w) {
        w->sequence = s->sequences;
        w->room = n;
        w->latents_in = vae_mem_alloc(n * sizeof *w->latents_in);
        w->latents_out = vae_mem_alloc(n * sizeof *w->latents_out);
        w->pictures = vae_mem_alloc(n * sizeof *w->pictures);
    }
    if (w && w->latents_in && w->latents_out && w->pictures)
        return VAE_OK;
    vae_stream_free_waiting(s);
    return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
}

/* For the first unit of a sequence: allocates memory for n copies of such
 * units. For later units: checks that they have the type or format of the
 * first. */
static VaeStatus
settle(const VaeStream *s, Side *side, const Unit *unit, int n, VaeError *error)
{
    Unit any;
    VaeStatus status = check_unit(s, unit, error);
    if (status != VAE_OK)
        return status;
    if (side->known)
        return same_kind(&side->kind, unit)
                   ? VAE_OK
                   : fail_kind(&side->kind, unit, error);
    side->slot = place(s, unit, 64, &any);
    if (n && !vae_room_take(&side->room, (size_t) n * side->slot))
        return vae_fail(error, VAE_ERR_MEMORY,
                        "out of memory: %d %s take %zu "
                        "bytes",
                        n, unit->is_picture ? "pictures" : "latents",
                        (size_t) n * side->slot);
    side->kind = *unit;
    side->known = true;
    return VAE_OK;
}

/* ------------------------------------------------------------------ */
/* Sending and receiving.                                              */

static VaeStatus
check_stream(VaeStream *s, VaeDirection direction, VaeError *error)
{
    const VaeStatus status = vae_stream_check_state(s, direction, error);
    return status == VAE_OK ? make_waiting(s, error) : status;
}

/* The number of steps of the next run. The first steps run one by one, so that
 * their results come early. */
static int
next_steps(const VaeStream *s)
{
    return s->at.next != NEXT ? 1 : s->main.plan.slice_size;
}

/* The number of latents that an encoder must still compute so that they decode
 * to all frames of the sequence, also those before a checkpoint. 0 after a
 * restart, because the sequence may be a part of a longer one. */
static int64_t
results_missing(const VaeStream *s)
{
    const VaeWaiting *w = s->waiting;
    if (s->main.params.direction == VAE_DECODE || s->at.origin.restart)
        return 0;
    const int64_t frames = (int64_t) vae_stream_units_before(s, s->at.latents) +
                           w->sent - w->repeated;
    return vae_model_latents_of(s->main.model, frames) -
           (int64_t) s->at.latents;
}

/* Sets *to to the place of the next unit, which the caller writes. */
static VaeStatus
add_unit(VaeStream *s, const Unit *unit, Unit *to, VaeError *error)
{
    VaeWaiting *w = s->waiting;
    int n_in, n_out;
    if (w->ended)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "a unit after the end", "a reset stream"},
            "the end of the sequence was sent; reset the stream first");
    const bool first = !w->in.known;
    const VaeStatus status = settle(s, &w->in, unit, most_in(s), error);
    if (status != VAE_OK)
        return status;
    vae_stream_count(s, next_steps(s), &n_in, &n_out);
    if (w->sent >= n_in)
        return VAE_AGAIN;
    *to = copy_at(s, &w->in, w->sent);
    w->place = first ? vae_stream_frames_so_far(s) : w->place;
    w->last = w->sent++;
    return VAE_OK;
}

/* unit NULL: ends the sequence. */
static VaeStatus
send_unit(VaeStream *s, const Unit *unit, VaeError *error)
{
    Unit to;
    if (!unit) {
        if (!s->waiting->in.known && results_missing(s) > 0)
            return vae_fail(error, VAE_ERR_ARGUMENT,
                            "the encoder has to repeat the last frame, and "
                            "none was sent since the checkpoint; send that "
                            "frame again before the end");
        s->waiting->ended = true;
        return VAE_OK;
    }
    const VaeStatus status = add_unit(s, unit, &to, error);
    if (status == VAE_OK)
        copy(s, &to, unit);
    return status;
}

/* Sets the addresses of n results: the first one is the receiver's, the others
 * are copies. */
static void
set_results(VaeStream *s, int n, const Unit *first)
{
    VaeWaiting *w = s->waiting;
    for (int i = 0; i < n; i++) {
        const Unit u = i ? copy_at(s, &w->out, i - 1) : *first;
        if (u.is_picture)
            w->pictures[i] = u.picture;
        else
            w->latents_out[i] = u.latent;
    }
}

/* Runs the units that were sent. Incomplete steps are filled with copies of the
 * last unit. */
static VaeStatus
run_slice(VaeStream *s, int n_in, int n_out, const Unit *first, VaeError *error)
{
    VaeWaiting *w = s->waiting;
    const bool decode = s->main.params.direction == VAE_DECODE;
    for (int i = 0; i < n_in; i++) {
        const Unit u = copy_at(s, &w->in, i < w->sent ? i : w->last);
        if (decode)
            w->latents_in[i] = (VaeLatentIn){u.latent.type, u.latent.data};
        else
            w->pictures[i] = u.picture;
    }
    set_results(s, n_out, first);
    /* no unit waits during the call */
    const int sent = w->sent;
    w->sent = 0;
    const VaeStatus status =
        decode ? vae_stream_decode(s, w->latents_in, n_in, w->pictures, n_out,
                                   error)
               : vae_stream_encode(s, w->pictures, n_in, w->latents_out, n_out,
                                   error);
    if (status != VAE_OK)
        w->sent = sent;
    else
        w->repeated += n_in - sent;
    return status;
}

/* Runs a slice of the end, for a model with a delay. */
static VaeStatus
drain_slice(VaeStream *s, const Unit *first, VaeError *error)
{
    VaeWaiting *w = s->waiting;
    int steps = vae_stream_drain_count(s, 0, NULL), n_out;
    if (steps == 0)
        return VAE_END;
    if (steps > s->main.plan.slice_size)
        steps = s->main.plan.slice_size;
    vae_stream_drain_count(s, steps, &n_out);
    set_results(s, n_out, first);
    const VaeStatus status =
        s->main.params.direction == VAE_DECODE
            ? vae_stream_drain(s, steps, w->pictures, n_out, error)
            : vae_stream_drain_latents(s, steps, w->latents_out, n_out, error);
    w->made = status == VAE_OK ? n_out : 0;
    return status;
}

/* Runs a slice, which gives w->made results. */
static VaeStatus
compute(VaeStream *s, const Unit *unit, VaeError *error)
{
    VaeWaiting *w = s->waiting;
    int steps = next_steps(s), n_in, n_out;
    vae_stream_count(s, steps, &n_in, &n_out);
    if (w->sent < n_in && !w->ended)
        return VAE_AGAIN;
    const int64_t missing = w->ended ? results_missing(s) : 0;
    if (w->sent == 0 && missing <= 0)
        return drain_slice(s, unit, error);
    /* use the smallest number of steps that takes all units */
    for (int fewer = steps - 1; fewer > 0; fewer--) {
        vae_stream_count(s, fewer, &n_in, &n_out);
        if (n_in < w->sent || n_out < missing)
            break;
        steps = fewer;
    }
    vae_stream_count(s, steps, &n_in, &n_out);
    const VaeStatus status = run_slice(s, n_in, n_out, unit, error);
    if (status != VAE_OK)
        return status;
    w->made = n_out;
    return VAE_OK;
}

static VaeStatus
receive_unit(VaeStream *s, const Unit *unit, VaeError *error)
{
    VaeWaiting *w = s->waiting;
    VaeStatus status = settle(s, &w->out, unit, most_out(s) - 1, error);
    if (status != VAE_OK)
        return status;
    if (w->most && w->in.known && w->place >= w->most) {
        w->ended = true;
        return VAE_END;
    }
    if (w->given < w->made) {
        const Unit from = copy_at(s, &w->out, w->given++ - 1);
        copy(s, unit, &from);
        w->place++;
        return VAE_OK;
    }
    /* with a delay, the first slices have no results */
    do
        status = compute(s, unit, error);
    while (status == VAE_OK && w->made == 0);
    if (status == VAE_OK) {
        w->given = 1;
        w->place++;
    }
    return status;
}

VaeStatus
vae_stream_send_latent(VaeStream *stream, const VaeLatentIn *latent,
                       VaeError *error)
{
    Unit unit = {0};
    const VaeStatus status = check_stream(stream, VAE_DECODE, error);
    if (latent)
        unit.latent =
            (VaeLatentOut){.type = latent->type, .data = (void *) latent->data};
    return status == VAE_OK ? send_unit(stream, latent ? &unit : NULL, error)
                            : status;
}

static VaeStatus
check_clip(const VaeStream *s, const VaeLatentClip *clip, int k,
           VaeError *error)
{
    const VaeNormalization expected = s->main.params.normalization;
    const VaeNormalization of_clip =
        vae_space_normalization(s->main.model->info.space, clip->normalization);
    if (k < 0)
        return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                            "%s: latent {%d}, expected {=0 or more}",
                            clip->file, k);
    if (!clip->data)
        return vae_mismatch(
            error, VAE_ERR_ARGUMENT, NULL,
            "%s: only {the header} is in memory, expected {=the whole file}",
            clip->file);
    if (clip->normalization_stated && of_clip != expected)
        return vae_mismatch(
            error, VAE_ERR_ARGUMENT, clip->tensor,
            "%s: the latents are {%s}, the stream expects {=%s} ones",
            clip->file, vae_normalization_name(of_clip),
            vae_normalization_name(expected));
    return vae_model_check_clip(s->main.model, clip, s->main.params.width,
                                s->main.params.height, error);
}

VaeStatus
vae_stream_send_clip(VaeStream *stream, const VaeLatentClip *clip, int k,
                     VaeError *error)
{
    Unit to = {0};
    VaeLatentClip c;
    VaeStatus status = check_stream(stream, VAE_DECODE, error);
    if (status == VAE_OK)
        status = vae_check_pointers(error, "clip", clip);
    if (status == VAE_OK)
        status = vae_sized_read(&c, sizeof c, clip,
                                VAE_SIZE_UP_TO(VaeLatentClip, tensor),
                                "VaeLatentClip", error);
    if (status == VAE_OK && !c.file) /* of a program with older headers */
        c.file = "the clip";
    if (status == VAE_OK)
        status = check_clip(stream, &c, k, error);
    if (status != VAE_OK)
        return status;
    if (k >= c.t)
        return send_unit(stream, NULL, error);
    const VaeLatentOut any = {.type = c.type, .data = (void *) c.data};
    status = add_unit(stream, &(Unit){.latent = any}, &to, error);
    if (status != VAE_OK)
        return status;
    stream->waiting->most = c.frames;
    vae_latent_clip_read(&c, k, to.latent.data);
    return VAE_OK;
}

VaeStatus
vae_stream_receive_picture(VaeStream *stream, const VaePicture *picture,
                           VaeError *error)
{
    VaeStatus status = check_stream(stream, VAE_DECODE, error);
    if (status == VAE_OK)
        status = vae_check_pointers(error, "picture", picture);
    return status == VAE_OK
               ? receive_unit(stream,
                              &(Unit){.is_picture = true, .picture = *picture},
                              error)
               : status;
}

VaeStatus
vae_stream_send_picture(VaeStream *stream, const VaePicture *picture,
                        VaeError *error)
{
    Unit unit = {.is_picture = true};
    const VaeStatus status = check_stream(stream, VAE_ENCODE, error);
    if (picture)
        unit.picture = *picture;
    return status == VAE_OK ? send_unit(stream, picture ? &unit : NULL, error)
                            : status;
}

VaeStatus
vae_stream_receive_latent(VaeStream *stream, const VaeLatentOut *latent,
                          VaeError *error)
{
    VaeStatus status = check_stream(stream, VAE_ENCODE, error);
    if (status == VAE_OK)
        status = vae_check_pointers(error, "latent", latent);
    return status == VAE_OK
               ? receive_unit(stream, &(Unit){.latent = *latent}, error)
               : status;
}
