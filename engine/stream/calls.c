/*
 * calls.c: counts the units of a call, and checks its arguments.
 */
#include <stdio.h>

#include "arguments.h"
#include "pixels.h"
#include "stream.h"
#include "vae-private/frames.h"

#define MAX_UNITS (1 << 24) /* of a call; no product of theirs overflows */

/* The number of frames of the next latents, for models with chunks. */
static int
chunk_frames(const VaeStream *s, int latents)
{
    const VaeCounts c = vae_model_counts(&s->main.model->info);
    const int64_t at = (int64_t) (s->at.latents % (uint64_t) c.chunk);
    return (int) (vae_count_frames(c, at + latents) - vae_count_frames(c, at));
}

void
vae_stream_count(const VaeStream *stream, int steps, int *n_in, int *n_out)
{
    const VaeSteps *s = &stream->steps;
    steps = steps < 0 ? 0 : steps > MAX_UNITS ? MAX_UNITS : steps;
    const bool first = stream->at.next == FIRST && steps > 0;
    const int later = first ? steps - 1 : steps;
    if (stream->main.model->info.chunk) {
        *n_in = *n_out = steps;
        *(stream->main.params.direction == VAE_DECODE ? n_out : n_in) =
            chunk_frames(stream, steps);
        return;
    }
    *n_in = (first ? s->first_in : 0) + later * s->step_in;
    *n_out = vae_machine_has_delay(&stream->main)
                 ? vae_stream_frames_after(stream, steps)
                 : (first ? s->first_out : 0) + later * s->step_out;
}

uint64_t
vae_stream_units_before(const VaeStream *s, uint64_t latents)
{
    const VaeCounts counts = vae_model_counts(&s->main.model->info);
    const VaeSteps *steps = &s->steps;
    if (s->main.params.direction == VAE_DECODE || latents == 0)
        return latents;
    if (counts.chunk)
        return (uint64_t) vae_count_frames(counts, (int64_t) latents);
    return (uint64_t) steps->first_in +
           (latents - 1) * (uint64_t) steps->step_in;
}

int
vae_stream_steps_of(const VaeStream *stream, int n_in)
{
    const VaeSteps *s = &stream->steps;
    if (stream->main.model->info.chunk) {
        int steps = 0, in = 0, out;
        while (in < n_in)
            vae_stream_count(stream, ++steps, &in, &out);
        return in == n_in ? steps : -1;
    }
    const bool first = stream->at.next == FIRST;
    const int rest = first ? n_in - s->first_in : n_in;
    if (rest < 0 || rest % s->step_in)
        return -1;
    return rest / s->step_in + first;
}

VaeStatus
vae_stream_check_latent(VaeType type, const void *data, VaeError *error)
{
    if (!data)
        return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                              (VaeErrorParts){NULL, "no data", "data"},
                              "a latent has no data");
    if (type <= VAE_TYPE_BF16)
        return VAE_OK;
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "the type of a latent is {%s}, expected {=float32, float16 or "
        "bfloat16}",
        vae_type_name(type));
}

/* Checks alignment, because a misaligned read would make the device unusable
 * for the process. */
static VaeStatus
check_place(const VaeStream *s, const VaePicture *p, int number,
            VaeError *error)
{
    if (!p->on_device)
        return VAE_OK;
    if (!s->main.class->pictures_on_device)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "device memory", "host memory"},
            "picture %d is in the memory of a device, which "
            "the backend %s does not have",
            number, s->main.class->name);
    if (vae_machine_has_tiles(&s->main) || s->main.model->info.in_tiles)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "device memory", "host memory"},
            "picture %d is in the memory of a device, and "
            "tiles are blended in that of the host",
            number);
    const int bytes = vae_layout(p->pixels)->bytes;
    for (int i = 0; i < 3 && p->data[i]; i++)
        if (((uintptr_t) p->data[i] | (uintptr_t) p->stride[i]) %
            (uintptr_t) bytes)
            return vae_mismatch(
                error, VAE_ERR_ARGUMENT, NULL,
                "picture %d is in the memory of a device, where samples of %d "
                "bytes begin at {=multiples of %d}; plane %d is {at %p, its "
                "rows %td bytes apart}",
                number, bytes, bytes, i, (void *) p->data[i], p->stride[i]);
    return VAE_OK;
}

/* Checks that each plane has memory, and that its rows do not overlap. */
static VaeStatus
check_planes(const VaePicture *p, bool alpha, int number, VaeError *error)
{
    size_t row[3];
    int rows[3];
    VaeStatus status = vae_check_range("pixels", (int) p->pixels, 0,
                                       VAE_PIXELS_KINDS - 1, error);
    if (status == VAE_OK)
        status = vae_check_range("matrix", (int) p->matrix, 0,
                                 VAE_MATRIX_BT2020, error);
    if (status != VAE_OK)
        return status;
    if (p->pixels == VAE_PIXELS_RGBA_F32 && !alpha)
        return vae_mismatch(
            error, VAE_ERR_ARGUMENT, NULL,
            "picture %d has {4 floats a pixel}, expected {=3}: the network has "
            "no alpha",
            number);
    const int planes = vae_picture_planes(p, row, rows);
    for (int i = 0; i < planes; i++) {
        if (!p->data[i])
            return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                                  (VaeErrorParts){NULL, "no data", "data"},
                                  "picture %d has no data for its plane %d",
                                  number, i);
        if (p->stride[i] < (ptrdiff_t) row[i])
            return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                                "picture %d: the rows of plane %d are {%td} "
                                "bytes apart, and a row has {=%zu}",
                                number, i, p->stride[i], row[i]);
    }
    return VAE_OK;
}

VaeStatus
vae_stream_check_state(const VaeStream *s, VaeDirection direction,
                       VaeError *error)
{
    static const char *const words[] = {
        [VAE_DECODE] = "decode", [VAE_ENCODE] = "encode"};
    const VaeStatus status = vae_check_pointers(error, "stream", s);
    if (status != VAE_OK)
        return status;
    if (s->main.params.direction != direction)
        return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                            "the call {%s}s, and the stream {=%s}s",
                            words[direction], words[s->main.params.direction]);
    if (s->at.broken)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "a broken sequence", "a reset stream"},
            "the sequence was broken off by an error; reset "
            "the stream first");
    return VAE_OK;
}

static VaeStatus
fail_size(const VaeStream *s, const VaePicture *p, int number, VaeError *error)
{
    return vae_mismatch(error, VAE_ERR_SIZE, NULL,
                        "picture %d is {%dx%d}, the stream was made for "
                        "{=%dx%d}",
                        number, p->width, p->height, s->main.params.width,
                        s->main.params.height);
}

VaeStatus
vae_stream_check_pictures(const VaeStream *s, const VaePicture *pictures, int n,
                          VaeError *error)
{
    for (int i = 0; i < n; i++) {
        const VaePicture *p = &pictures[i];
        if (!p->data[0] && s->main.params.direction == VAE_DECODE)
            continue;
        if (p->data[0] && (p->width != s->main.params.width ||
                           p->height != s->main.params.height))
            return fail_size(s, p, i, error);
        VaeStatus status =
            check_planes(p, vae_machine_pixel_floats(&s->main) == 4, i, error);
        if (status == VAE_OK)
            status = check_place(s, p, i, error);
        if (status != VAE_OK)
            return status;
    }
    return VAE_OK;
}

/* For a call whose numbers of units are wrong. */
static VaeStatus
fail_counts(const VaeStream *s, int n_in, int n_out, VaeError *error)
{
    const VaeSteps *steps = &s->steps;
    const bool first = s->at.next == FIRST;
    return vae_mismatch(
        error, VAE_ERR_ARGUMENT, NULL,
        "units: {%d in and %d out} are no whole number of steps here, expected "
        "{=%d in and %d out, for each later step %d and %d}",
        n_in, n_out, first ? steps->first_in : steps->step_in,
        first ? steps->first_out : steps->step_out, steps->step_in,
        steps->step_out);
}

/* Checks the pointers of a call and the latents to which they point. */
static VaeStatus
check_latents(const VaeUnits *units, int n_latents, int n_pictures,
              VaeError *error)
{
    VaeStatus status = VAE_OK;
    if (n_latents)
        status = units->in ? VAE_OK
                           : vae_check_pointers(error, "latents", units->out);
    if (status == VAE_OK && n_pictures)
        status = vae_check_pointers(error, "frames", units->pictures);
    for (int i = 0; status == VAE_OK && i < n_latents; i++)
        status = units->in ? vae_stream_check_latent(units->in[i].type,
                                                     units->in[i].data, error)
                           : vae_stream_check_latent(units->out[i].type,
                                                     units->out[i].data, error);
    return status;
}

VaeStatus
vae_stream_check_results(const VaeStream *s, const VaeUnits *units, int n,
                         VaeError *error)
{
    if (s->main.params.direction == VAE_ENCODE)
        return check_latents(units, n, 0, error);
    const VaeStatus status = check_latents(units, 0, n, error);
    return status == VAE_OK
               ? vae_stream_check_pictures(s, units->pictures, n, error)
               : status;
}

VaeStatus
vae_stream_check_waiting(const VaeStream *s, VaeError *error)
{
    int sent, made;
    vae_stream_count_waiting(s, &sent, &made);
    if (sent + made == 0)
        return VAE_OK;
    char found[64];
    snprintf(found, sizeof found, "%d sent and %d computed", sent, made);
    return vae_fail_parts(error, VAE_ERR_ARGUMENT,
                          (VaeErrorParts){NULL, found, "no waiting unit"},
                          "units wait in the stream, %s; receive them all or "
                          "reset the stream first",
                          found);
}

VaeStatus
vae_stream_check_call(const VaeStream *s, VaeDirection direction,
                      const VaeUnits *units, int n_in, int n_out,
                      VaeError *error)
{
    const bool decode = direction == VAE_DECODE;
    VaeStatus status = vae_stream_check_state(s, direction, error);
    if (status == VAE_OK)
        status = vae_stream_check_waiting(s, error);
    if (status != VAE_OK)
        return status;
    if (s->at.ended)
        return vae_fail_parts(
            error, VAE_ERR_ARGUMENT,
            (VaeErrorParts){NULL, "an ended sequence", "a reset stream"},
            "the end of the sequence was drained; reset the "
            "stream first");
    const int steps = n_in > MAX_UNITS ? -1 : vae_stream_steps_of(s, n_in);
    int expected_in, expected_out;
    if (steps < 1 || n_out < 0)
        return fail_counts(s, n_in, n_out, error);
    vae_stream_count(s, steps, &expected_in, &expected_out);
    if (n_out != expected_out)
        return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                            "%d %s give {=%d} %s here, not {%d}", n_in,
                            decode ? "latents" : "frames", expected_out,
                            decode ? "frames" : "latents", n_out);
    const int n_pictures = decode ? n_out : n_in;
    status = check_latents(units, decode ? n_in : n_out, n_pictures, error);
    return status == VAE_OK ? vae_stream_check_pictures(s, units->pictures,
                                                        n_pictures, error)
                            : status;
}
