/*
 * send.c: units that are sent and received one at a time give the same results
 * as calls with whole steps.
 *
 * send MODEL BACKEND PRECISION
 */

#include "streams.h"
#include "vae-private/frames.h"

enum { W = 40, H = 24, T = 7 };

/* One run of a clip through send and receive. */
typedef struct Run {
    const Bed *bed;
    VaeStream *stream;
    VaeDirection direction;
    const TestClip *clip;
    int sent, received;
    int most;             /* maximum number of units to receive; -1: all */
    uint64_t allocations; /* counted after the second slice */
    VaeStatus status;
    VaeError error;
} Run;

static VaePicture
picture(const TestClip *clip, int i)
{
    return (VaePicture){
        .pixels = VAE_PIXELS_RGB_F32,
        .width = clip->width,
        .height = clip->height,
        .data = {(uint8_t *) (clip->video + (size_t) i * W * H * 3)},
        .stride = {W * 3 * sizeof(float)}};
}

static float *
latent(const Run *r, int k)
{
    const size_t n = clip_latent_count(r->bed, r->clip) / (size_t) r->clip->t;
    return r->clip->latents + (size_t) k * n;
}

static VaeStatus
send_next(Run *r)
{
    const int all = r->direction == VAE_DECODE ? r->clip->t : r->clip->frames;
    const bool end = r->sent == all;
    VaeStatus status;
    if (r->direction == VAE_DECODE) {
        const VaeLatentIn in = {VAE_TYPE_F32, end ? NULL : latent(r, r->sent)};
        status = vae_stream_send_latent(r->stream, end ? NULL : &in, &r->error);
    } else {
        const VaePicture in = picture(r->clip, end ? 0 : r->sent);
        status =
            vae_stream_send_picture(r->stream, end ? NULL : &in, &r->error);
    }
    r->sent += status == VAE_OK && !end;
    return status;
}

static VaeStatus
receive_next(Run *r)
{
    /* Nothing may be written after the end. */
    const int all = r->direction == VAE_DECODE ? r->clip->frames : r->clip->t;
    const int at = r->received < all ? r->received : all - 1;
    VaeStatus status;
    if (r->direction == VAE_DECODE) {
        const VaePicture out = picture(r->clip, at);
        status = vae_stream_receive_picture(r->stream, &out, &r->error);
    } else {
        const VaeLatentOut out = {.type = VAE_TYPE_F32, .data = latent(r, at)};
        status = vae_stream_receive_latent(r->stream, &out, &r->error);
    }
    r->received += status == VAE_OK;
    return status;
}

/* greedy: sends until the stream refuses; otherwise only when the stream asks
 * for input. */
static void
run(Run *r, bool greedy)
{
    VaeStatus status = VAE_OK;
    r->sent = r->received = 0;
    r->allocations = 0;
    while (status != VAE_END && r->received != r->most) {
        VaeStatus sent = VAE_OK;
        status = receive_next(r);
        if (status == VAE_OK &&
            r->received == (r->direction == VAE_DECODE ? 10 : 3))
            r->allocations = vae_allocation_count();
        if (status != VAE_AGAIN && status != VAE_OK)
            break;
        if (status == VAE_AGAIN)
            sent = send_next(r);
        while (greedy && sent == VAE_OK && r->sent > 0 &&
               r->sent <
                   (r->direction == VAE_DECODE ? r->clip->t : r->clip->frames))
            sent = send_next(r);
        must(sent == VAE_AGAIN ? VAE_OK : sent, &r->error);
    }
    r->status = status;
}

static Run
begin(const Bed *bed, VaeDirection direction, int slice, const TestClip *clip)
{
    return (Run){.bed = bed,
                 .stream = bed_slices(bed, direction, W, H, slice),
                 .direction = direction,
                 .clip = clip,
                 .most = -1};
}

/* Compares the clip with the results of whole calls. */
static void
expect_same(Run *r, const TestClip *want, bool greedy, const char *what)
{
    char text[128];
    clip_poison(r->bed, (TestClip *) r->clip, r->direction);
    run(r, greedy);
    snprintf(text, sizeof text, "%s, slices of %d, %s",
             r->direction == VAE_DECODE ? "decode" : "encode",
             vae_stream_get_plan(r->stream)->slice_size, what);
    expect(r->status == VAE_END, "%s: ends: %s", text,
           vae_status_name(r->status));
    same_result(r->bed, r->clip, want, r->direction, text);
    if (r->allocations)
        expect(vae_allocation_count() == r->allocations,
               "%s: no allocation after the first slices", text);
}

static void
one_slice(const Bed *bed, VaeDirection direction, int slice,
          const TestClip *want, TestClip *clip)
{
    Run r = begin(bed, direction, slice, clip);
    expect_same(&r, want, false, "one at a time");
    expect(receive_next(&r) == VAE_END, "receive still returns the end");
    expect(direction == VAE_DECODE
               ? vae_stream_send_latent(r.stream,
                                        &(VaeLatentIn){.data = clip->latents},
                                        &r.error) == VAE_ERR_ARGUMENT
               : send_next(&r) == VAE_OK,
           "after the end only another end is accepted");
    vae_stream_reset(r.stream);
    expect_same(&r, want, true, "as many as the stream accepts");
    vae_stream_reset(r.stream);
    r.most = direction == VAE_DECODE ? 7 : 3;
    run(&r, true); /* stops in the middle of a slice */
    r.most = -1;
    vae_stream_reset(r.stream);
    expect_same(&r, want, true, "after a reset within a slice");
    vae_stream_reset(r.stream);
    vae_stream_cancel(r.stream);
    run(&r, false);
    expect(r.status == VAE_ERR_CANCELLED, "cancelled: %s",
           vae_status_name(r.status));
    expect_misuse(receive_next(&r), VAE_ERR_ARGUMENT, &r.error,
                  "receive after a cancel");
    expect_misuse(send_next(&r), VAE_ERR_ARGUMENT, &r.error,
                  "send after a cancel");
    vae_stream_reset(r.stream);
    expect_same(&r, want, false, "after a cancel");
    vae_stream_free(&r.stream);
}

static void
both_ways(const Bed *bed, VaeDirection direction)
{
    static const int plan[] = {1, 0}, sizes[] = {1, 2, 4};
    SCOPED_CLIP TestClip want = bed_clip(bed, T, W, H, 0),
                         clip = bed_clip(bed, T, W, H, 0);
    VaeStream *stream = bed_slices(bed, direction, W, H, 1);
    /* The last step of an encoder has the smallest possible number of
     * frames. */
    while (direction == VAE_ENCODE &&
           vae_model_latents_of(bed->model, clip.frames - 1) == T)
        want.frames = --clip.frames;
    run_clip(bed, stream, direction, &want, plan);
    vae_stream_free(&stream);
    for (int i = 0; i < 3; i++)
        one_slice(bed, direction, sizes[i], &want, &clip);
}

static void
refuse_picture(const Run *r, VaePicture p, VaeStatus status, const char *what)
{
    VaeError error = {0};
    expect_misuse(vae_stream_receive_picture(r->stream, &p, &error), status,
                  &error, what);
}

/* A refused call changes nothing. */
static void
bad_calls(const Bed *bed)
{
    SCOPED_CLIP TestClip want = bed_clip(bed, T, W, H, 0),
                         clip = bed_clip(bed, T, W, H, 0);
    static const int plan[] = {1, 0};
    Run r = begin(bed, VAE_DECODE, 2, &clip);
    VaePicture p = picture(&clip, 0);
    const VaeLatentOut out = {.data = clip.latents};
    run_clip(bed, r.stream, VAE_DECODE, &want, plan);
    vae_stream_reset(r.stream);
    expect_misuse(vae_stream_send_picture(r.stream, &p, &r.error),
                  VAE_ERR_ARGUMENT, &r.error, "an encoder's send");
    expect_misuse(vae_stream_receive_latent(r.stream, &out, &r.error),
                  VAE_ERR_ARGUMENT, &r.error, "an encoder's receive");
    expect_misuse(vae_stream_send_latent(r.stream, &(VaeLatentIn){0}, &r.error),
                  VAE_ERR_ARGUMENT, &r.error, "no data");
    expect(receive_next(&r) == VAE_AGAIN && send_next(&r) == VAE_OK &&
               send_next(&r) == VAE_AGAIN && r.sent == 1,
           "the first latent alone");
    expect_misuse(
        vae_stream_send_latent(
            r.stream, &(VaeLatentIn){VAE_TYPE_F16, clip.latents}, &r.error),
        VAE_ERR_ARGUMENT, &r.error, "another type");
    p.width = W - 1;
    refuse_picture(&r, p, VAE_ERR_SIZE, "another size");
    p = picture(&clip, 0);
    p.on_device = true;
    refuse_picture(&r, p, VAE_ERR_ARGUMENT, "on a device");
    p = picture(&clip, 0);
    p.pixels = VAE_PIXELS_KINDS;
    refuse_picture(&r, p, VAE_ERR_ARGUMENT, "unknown pixels");
    static const int strides[] = {W * 12 - 1, W, 0, -W * 12};
    for (int i = 0; i < 4; i++) {
        p = picture(&clip, 0);
        p.stride[0] = strides[i];
        refuse_picture(&r, p, VAE_ERR_ARGUMENT, "rows that overlap");
    }
    p.pixels = VAE_PIXELS_I420;
    p.stride[0] = W;
    p.stride[1] = p.stride[2] = W / 2;
    refuse_picture(&r, p, VAE_ERR_ARGUMENT, "a plane without data");
    p.data[1] = p.data[2] = p.data[0];
    p.stride[2] = W / 2 - 1;
    refuse_picture(&r, p, VAE_ERR_ARGUMENT, "chroma rows that overlap");
    p = picture(&clip, 0);
    expect(receive_next(&r) == VAE_OK, "the first frame");
    p.pixels = VAE_PIXELS_RGB;
    refuse_picture(&r, p, VAE_ERR_ARGUMENT, "another kind");
    vae_stream_reset(r.stream);
    expect_same(&r, &want, true, "after refused calls");
    vae_stream_free(&r.stream);
}

/* ------------------------------------------------------------------ */
/* Latents of a VaeLatentClip.                                         */

/* A clip [C, T, h, w] of the same latents, in memory that the caller frees. */
static VaeLatentClip
stored(const Run *r, float **memory)
{
    const VaeModelInfo *info = vae_model_info(r->bed->model);
    const int h = (H - 1) / info->spatial + 1, w = (W - 1) / info->spatial + 1;
    const size_t plane = (size_t) h * w, n = plane * sizeof(float);
    *memory = calloc((size_t) T * info->latent_channels, n);
    for (int k = 0; k < T; k++)
        for (int c = 0; c < info->latent_channels; c++)
            memcpy(*memory + ((size_t) c * T + k) * plane,
                   latent(r, k) + c * plane, n);
    return (VaeLatentClip){.struct_size = sizeof(VaeLatentClip),
                           .type = VAE_TYPE_F32,
                           .t = T,
                           .channels = info->latent_channels,
                           .height = h,
                           .width = w,
                           .t_stride = n,
                           .c_stride = T * n,
                           .data = (const uint8_t *) *memory,
                           .tensor = "latent",
                           .normalization_stated = true,
                           .file = "a file"};
}

/* Decodes a clip from latent k until receive returns the end. Returns the
 * number of frames. */
static int
run_stored(Run *r, const VaeLatentClip *stored, int k)
{
    VaeStatus status;
    r->received = 0;
    while ((status = receive_next(r)) != VAE_END) {
        if (status == VAE_AGAIN)
            status = vae_stream_send_clip(r->stream, stored, k++, &r->error);
        must(status, &r->error);
    }
    return r->received;
}

static void
refuse_clip(const Run *r, VaeLatentClip clip, VaeStatus status,
            const char *word)
{
    VaeError error = {0};
    expect_misuse(vae_stream_send_clip(r->stream, &clip, 0, &error), status,
                  &error, word);
    expect(strstr(error.message, word) != NULL, "the error names %s: %s", word,
           error.message);
}

/* Refused clips change nothing. */
static void
bad_clips(const Run *r, VaeLatentClip good)
{
    VaeError error = {0};
    VaeLatentClip bad = good;
    bad.channels++;
    refuse_clip(r, bad, VAE_ERR_SIZE, "a file: tensor \"latent\" has");
    bad = good;
    bad.width++;
    refuse_clip(r, bad, VAE_ERR_SIZE, "a file: the latents have a grid of");
    bad = good;
    bad.space = "another";
    refuse_clip(r, bad, VAE_ERR_MODEL,
                "a file: the latent space is another, which is not known, ");
    bad = good;
    bad.normalization = VAE_RAW;
    refuse_clip(r, bad, VAE_ERR_ARGUMENT, "a file: the latents are raw");
    bad = good;
    bad.data = NULL;
    refuse_clip(r, bad, VAE_ERR_ARGUMENT, "a file: only the header");
    bad = good;
    bad.struct_size = 8;
    expect(vae_stream_send_clip(r->stream, &bad, 0, &error) == VAE_ERR_ARGUMENT,
           "a wrong struct_size");
    expect_misuse(vae_stream_send_clip(r->stream, &good, -1, &error),
                  VAE_ERR_ARGUMENT, &error, "a negative index");
    expect_misuse(vae_stream_send_clip(r->stream, NULL, 0, &error),
                  VAE_ERR_ARGUMENT, &error, "no clip");
}

static void
clips(const Bed *bed)
{
    static const int plan[] = {1, 0};
    SCOPED_CLIP TestClip want = bed_clip(bed, T, W, H, 0),
                         clip = bed_clip(bed, T, W, H, 0);
    const int64_t before = vae_model_frames_of(bed->model, 4);
    Run r = {.bed = bed,
             .stream =
                 bed_stream(bed, (VaeStreamParams){.direction = VAE_DECODE,
                                                   .width = W,
                                                   .height = H,
                                                   .slice_size = 2,
                                                   .restarts = true}),
             .direction = VAE_DECODE,
             .clip = &clip};
    float *memory;
    VaeLatentClip given = stored(&r, &memory);
    run_clip(bed, r.stream, VAE_DECODE, &want, plan);
    vae_stream_reset(r.stream);
    bad_clips(&r, given);
    clip_poison(bed, &clip, VAE_DECODE);
    int frames = run_stored(&r, &given, 0);
    expect(frames == want.frames, "%d frames of a clip", frames);
    same_result(bed, &clip, &want, VAE_DECODE, "a clip");
    for (given.frames = 1; given.frames <= want.frames; given.frames += 2) {
        vae_stream_reset(r.stream);
        frames = run_stored(&r, &given, 0);
        expect(frames == given.frames, "%d frames of a clip that states %d",
               frames, (int) given.frames);
        expect_misuse(vae_stream_send_clip(r.stream, &given, 1, &r.error),
                      VAE_ERR_ARGUMENT, &r.error, "a latent after the end");
        must(vae_stream_restart(r.stream, 4, &r.error), &r.error);
        frames = run_stored(&r, &given, 4);
        expect(frames == (given.frames > before ? given.frames - before : 0),
               "%d frames from latent 4 of a clip that states %d", frames,
               (int) given.frames);
    }
    free(memory);
    vae_stream_free(&r.stream);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    both_ways(&bed, VAE_DECODE);
    both_ways(&bed, VAE_ENCODE);
    bad_calls(&bed);
    clips(&bed);
    return bed_close(&bed);
}
