/*
 * clips.c: see clips.h.
 */

#include "clips.h"
#include "emu_rt.h"

const int steps[CALLS] = {1, 2, 1, 2};
const int whole[CALLS + 1] = {1, 2, 1, 2, 0};
const int calls[] = {4, 2, 0};

const char *
name_of(VaeDirection direction)
{
    return direction == VAE_DECODE ? "decode" : "encode";
}

VaeStreamParams
params_of(VaeDirection direction)
{
    return (VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                             .direction = direction,
                             .backend = VAE_BACKEND_CUDA,
                             .precision = VAE_PRECISION_FP32,
                             .width = SIZE,
                             .height = SIZE,
                             .slice_size = SLICE,
                             .device = -1,
                             .frames_at_once = 1000, /* all */
                             .strips = 1,
                             .spill = VAE_SPILL_OFF,
                             .deterministic = true};
}

VaeModel *
open_model(const Bed *bed)
{
    VaeModel *model;
    VaeError error;
    must(vae_model_open(bed->info->path, NULL, &model, &error), &error);
    return model;
}

TestClip
new_clip(const Bed *bed)
{
    return bed_clip(bed, LATENTS, SIZE, SIZE, 0);
}

void
listen(void *user, const char *line)
{
    const size_t n = strlen(user);
    snprintf((char *) user + n, SAID - n, "%s\n", line);
}

VaeStream *
open_stream(VaeModel *model, VaeDirection direction)
{
    const VaeStreamParams params = params_of(direction);
    return new_stream(model, &params);
}

uint64_t
memory_left(void)
{
    uint64_t left;
    vae_rt_memory_left(&left);
    return left;
}

VaeStatus
call(const Bed *bed, VaeStream *stream, Place *at, int n, VaeError *error)
{
    const int plan[] = {n, 0};
    const bool decode = at->direction == VAE_DECODE;
    const size_t latent = clip_latent_count(bed, at->clip) / LATENTS;
    TestClip part = *at->clip;
    vae_stream_count(stream, n, decode ? &part.t : &part.frames,
                     decode ? &part.frames : &part.t);
    /* The clip may end before the last frame of its last step. */
    const int left = at->clip->frames - at->frame;
    part.frames = part.frames < left ? part.frames : left;
    part.latents += (size_t) at->t * latent;
    part.video += (size_t) at->frame * SIZE * SIZE * 3;
    const VaeStatus status =
        try_run(bed, stream, at->direction, &part, plan, error);
    if (status == VAE_OK) {
        at->t += part.t;
        at->frame += part.frames;
    }
    return status;
}

void
run_steps(const Bed *bed, VaeStream *stream, Place *at, int from, int to)
{
    VaeError error;
    for (int i = from; i <= to; i++)
        must(call(bed, stream, at, steps[i], &error), &error);
}

Clips
open_clips(const Bed *bed, VaeDirection direction)
{
    Clips c = {new_clip(bed), new_clip(bed), new_clip(bed), {0}};
    VaeStream *stream = open_stream(bed->model, direction);
    run_clip(bed, stream, direction, &c.want, whole);
    vae_stream_free(&stream);
    c.got = c.input;
    if (direction == VAE_DECODE)
        c.got.video = c.results.video;
    else
        c.got.latents = c.results.latents;
    clip_poison(bed, &c.got, direction);
    return c;
}

void
close_clips(Clips *c)
{
    clip_free(&c->input);
    clip_free(&c->want);
    clip_free(&c->results);
}

bool
same_clips(const Bed *bed, const Clips *c, VaeDirection direction)
{
    size_t bytes;
    const void *want = clip_result(bed, &c->want, direction, &bytes);
    const void *got = clip_result(bed, &c->got, direction, &bytes);
    return memcmp(want, got, bytes) == 0;
}

void
run_clips(const Bed *bed, VaeStream *stream, VaeDirection direction, Clips *c)
{
    clip_poison(bed, &c->got, direction);
    run_clip(bed, stream, direction, &c->got, calls);
}

int
device_close(Bed *bed)
{
    vae_model_free(&bed->model);
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
