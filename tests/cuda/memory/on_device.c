/*
 * on_device.c: pictures in the memory of the device, real or emulated, have the
 * same bytes as in host memory. No other bytes are written. On the emulated
 * device this holds for any order of work.
 *
 * on_device MODEL
 */

#include "../../stream/streams.h"
#include "pixels.h"

#ifdef VAE_TEST_GPU
#include "cuda_rt.h"

static void
emu_set_eager(unsigned streams)
{
}
#else
#include "emu_rt.h"
#endif

/* One step per call, two calls in flight, odd sizes. */
enum { LATENTS = 4, WIDTH = 23, HEIGHT = 19, FRAMES = 16, POISON = 0xee };

static const VaePixels kinds[] = {VAE_PIXELS_RGB_F32, VAE_PIXELS_RGB,
                                  VAE_PIXELS_RGBA,    VAE_PIXELS_I420,
                                  VAE_PIXELS_NV12,    VAE_PIXELS_P010};

/* n pictures in one block, with gaps between rows. */
typedef struct Frames {
    VaePicture pictures[FRAMES];
    uint8_t *data;
    size_t bytes;
    bool on_device;
} Frames;

static Frames
frames_new(VaePixels pixels, int n, bool on_device)
{
    Frames f = {.on_device = on_device};
    for (int i = 0; i < n; i++) {
        VaePicture *p = &f.pictures[i];
        size_t row[3];
        int rows[3];
        *p = (VaePicture){.pixels = pixels,
                          .width = WIDTH,
                          .height = HEIGHT,
                          .on_device = on_device};
        const int planes = vae_picture_planes(p, row, rows);
        for (int c = 0; c < planes; c++) {
            p->stride[c] = (ptrdiff_t) ((row[c] + 7) / 4 * 4);
            p->data[c] = (uint8_t *) f.bytes;
            f.bytes += (size_t) p->stride[c] * (size_t) rows[c];
        }
    }
    if (!on_device)
        f.data = test_alloc(f.bytes);
    else if (vae_rt_alloc((void **) &f.data, f.bytes))
        abort();
    for (int i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            if (f.pictures[i].stride[c])
                f.pictures[i].data[c] = f.data + (size_t) f.pictures[i].data[c];
    return f;
}

static void
frames_free(Frames *f)
{
    if (f->on_device)
        vae_rt_free(f->data);
    else
        free(f->data);
}

/* Copies between the host and the frames, and waits only for this copy. */
static void
move(void *to, const void *from, size_t bytes)
{
    VaeRtStream stream;
    int code = vae_rt_stream_new(&stream);
    if (!code)
        code = vae_rt_copy(to, from, bytes, stream);
    if (!code)
        code = vae_rt_stream_sync(stream);
    if (code)
        abort();
    vae_rt_stream_free(stream);
}

static VaeStream *
open_stream(const Bed *bed, VaeDirection direction, VaePixels pixels)
{
    return bed_stream(bed, (VaeStreamParams){.direction = direction,
                                             .width = WIDTH,
                                             .height = HEIGHT,
                                             .slice_size = 1,
                                             .device = -1,
                                             .pixels = pixels,
                                             .deterministic = true});
}

/* Begins step i of the clip, whose frames begin at `pictures`. Returns their
 * number. */
static int
begin(const Bed *bed, VaeStream *stream, VaeDirection direction,
      const VaePicture *pictures, const TestClip *clip, int i)
{
    float *at =
        clip->latents + (size_t) i * clip_latent_count(bed, clip) / LATENTS;
    const VaeLatentIn in = {.type = VAE_TYPE_F32, .data = at};
    const VaeLatentOut out = {.type = VAE_TYPE_F32, .data = at};
    int n_in, n_out;
    VaeError error;
    vae_stream_count(stream, 1, &n_in, &n_out);
    must(direction == VAE_DECODE
             ? vae_stream_decode_begin(stream, &in, 1, pictures, n_out, &error)
             : vae_stream_encode_begin(stream, pictures, n_in, &out, 1, &error),
         &error);
    return direction == VAE_DECODE ? n_out : n_in;
}

/* Runs the whole clip, one step per call. */
static void
run(const Bed *bed, VaeStream *stream, VaeDirection direction,
    const VaePicture *pictures, const TestClip *clip)
{
    VaeError error;
    for (int i = 0; i < LATENTS; i++) {
        pictures += begin(bed, stream, direction, pictures, clip, i);
        must(vae_stream_wait(stream, 1, &error), &error);
    }
    must(vae_stream_wait(stream, 0, &error), &error);
}

static void
decode_same(const Bed *bed, VaePixels pixels, unsigned eager)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    Frames host = frames_new(pixels, clip.frames, false);
    Frames device = frames_new(pixels, clip.frames, true);
    uint8_t *found = test_alloc(host.bytes);
    emu_set_eager(eager);
    VaeStream *stream = open_stream(bed, VAE_DECODE, pixels);
    memset(host.data, POISON, host.bytes);
    run(bed, stream, VAE_DECODE, host.pictures, &clip);
    vae_stream_reset(stream);
    memset(found, POISON, host.bytes);
    move(device.data, found, host.bytes);
    run(bed, stream, VAE_DECODE, device.pictures, &clip);
    move(found, device.data, host.bytes);
    expect(memcmp(found, host.data, host.bytes) == 0,
           "decode, kind %d, eager streams %u: %zu bytes the same", pixels,
           eager, host.bytes);
    /* Some pictures are on the device, some in host memory, some have no
     * memory. */
    vae_stream_reset(stream);
    VaePicture mixed[FRAMES];
    uint8_t *want = test_alloc(host.bytes);
    memcpy(want, host.data, host.bytes);
    memset(host.data, POISON, host.bytes);
    for (int i = 0; i < clip.frames; i++) {
        mixed[i] = i % 2 ? device.pictures[i] : host.pictures[i];
        if (i % 5 == 4)
            mixed[i].data[0] = NULL;
    }
    run(bed, stream, VAE_DECODE, mixed, &clip);
    const size_t size = host.bytes / (size_t) clip.frames;
    int wrong = 0;
    for (int i = 0; i < clip.frames; i += 2) {
        const uint8_t *at = host.data + (size_t) i * size;
        const bool skipped = i % 5 == 4;
        wrong += skipped ? at[0] != POISON
                         : memcmp(at, want + (size_t) i * size, size) != 0;
    }
    expect(wrong == 0, "frames in both memories: %d wrong", wrong);
    vae_stream_free(&stream);
    free(found);
    free(want);
    frames_free(&host);
    frames_free(&device);
}

/* Fills the frames with valid codes, as a decoder does. */
static void
fill(Frames *host)
{
    for (size_t i = 0; i < host->bytes; i++)
        host->data[i] = (uint8_t) (i * 31 + i / 251);
    if (host->pictures[0].pixels == VAE_PIXELS_RGB_F32)
        for (size_t i = 0; i < host->bytes / sizeof(float); i++) {
            const float v = (float) (i % 251) / 125.0f - 1;
            memcpy(host->data + i * sizeof v, &v, sizeof v);
        }
}

static void
encode_same(const Bed *bed, VaePixels pixels, unsigned eager)
{
    SCOPED_CLIP TestClip a = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    SCOPED_CLIP TestClip b = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 1);
    Frames host = frames_new(pixels, FRAMES, false);
    Frames device = frames_new(pixels, FRAMES, true);
    emu_set_eager(eager);
    VaeStream *stream = open_stream(bed, VAE_ENCODE, pixels);
    fill(&host);
    move(device.data, host.data, host.bytes);
    run(bed, stream, VAE_ENCODE, host.pictures, &a);
    vae_stream_reset(stream);
    clip_poison(bed, &b, VAE_ENCODE);
    run(bed, stream, VAE_ENCODE, device.pictures, &b);
    same_result(bed, &a, &b, VAE_ENCODE, "encode");
    vae_stream_free(&stream);
    frames_free(&host);
    frames_free(&device);
}

/* A copy of frames to the device, or from it, by another CUDA stream. */
typedef struct Copy {
    VaeRtStream stream;
    VaeRtEvent done;
    void *host;
} Copy;

/* Starts the copy. `to`: bytes for the device; NULL: the copy is from it. With
 * `passed`, the frames get the event of its end. */
static Copy
start_copy(Frames *device, const uint8_t *to, bool passed)
{
    Copy c;
    if (vae_rt_stream_new(&c.stream) || vae_rt_event_new(&c.done) ||
        vae_rt_alloc_host(&c.host, device->bytes))
        abort();
    memset(c.host, POISON, device->bytes);
    if (to) {
        move(device->data, c.host, device->bytes);
        memcpy(c.host, to, device->bytes);
    }
    if (vae_rt_copy(to ? device->data : c.host, to ? c.host : device->data,
                    device->bytes, c.stream) ||
        vae_rt_event_record(c.done, c.stream))
        abort();
    for (int i = 0; i < FRAMES && passed; i++)
        device->pictures[i].ready = c.done;
    return c;
}

static void
free_copy(Copy *c)
{
    vae_rt_event_free(c->done);
    vae_rt_stream_free(c->stream);
    vae_rt_free_host(c->host);
}

/* Another CUDA stream copies pictures to the device at the same time. With
 * `passed`, the stream gets their event and must wait for it. Without it, the
 * result must be wrong: this shows that the wait is necessary. */
static void
ready_is_waited_for(const Bed *bed, bool passed)
{
    SCOPED_CLIP TestClip a = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    SCOPED_CLIP TestClip b = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 1);
    Frames host = frames_new(VAE_PIXELS_NV12, FRAMES, false);
    Frames device = frames_new(VAE_PIXELS_NV12, FRAMES, true);
    emu_set_eager(0);
    VaeStream *stream = open_stream(bed, VAE_ENCODE, VAE_PIXELS_NV12);
    fill(&host);
    run(bed, stream, VAE_ENCODE, host.pictures, &a);
    vae_stream_reset(stream);
    Copy copy = start_copy(&device, host.data, passed);
    run(bed, stream, VAE_ENCODE, device.pictures, &b);
    expect((memcmp(a.latents, b.latents,
                   clip_latent_count(bed, &a) * sizeof *a.latents) == 0) ==
               passed,
           "pictures that are being copied, the event %spassed: latents",
           passed ? "" : "not ");
    if (vae_rt_stream_sync(copy.stream))
        abort();
    free_copy(&copy);
    vae_stream_free(&stream);
    frames_free(&host);
    frames_free(&device);
}

/* The same for pictures that another CUDA stream still reads, and that a
 * decoder overwrites. */
static void
readers_are_waited_for(const Bed *bed, bool passed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    Frames host = frames_new(VAE_PIXELS_NV12, FRAMES, false);
    Frames device = frames_new(VAE_PIXELS_NV12, FRAMES, true);
    emu_set_eager(0);
    VaeStream *stream = open_stream(bed, VAE_DECODE, VAE_PIXELS_NV12);
    fill(&host);
    move(device.data, host.data, host.bytes);
    Copy copy = start_copy(&device, NULL, passed);
    run(bed, stream, VAE_DECODE, device.pictures, &clip);
    if (vae_rt_stream_sync(copy.stream))
        abort();
    expect((memcmp(copy.host, host.data, host.bytes) == 0) == passed,
           "pictures that are being read, the event %spassed",
           passed ? "" : "not ");
    free_copy(&copy);
    vae_stream_free(&stream);
    frames_free(&host);
    frames_free(&device);
}

#ifndef VAE_TEST_GPU
/* The device waits for the copy of another CUDA stream; the host does not. */
static void
host_goes_on(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    Frames device = frames_new(VAE_PIXELS_NV12, FRAMES, true);
    SCOPED_BLOCK uint8_t *zeros = test_alloc(device.bytes);
    const bool decode = direction == VAE_DECODE;
    VaeError error;
    memset(zeros, 0, device.bytes);
    emu_set_eager(0);
    VaeStream *stream = open_stream(bed, direction, VAE_PIXELS_NV12);
    move(device.data, zeros, device.bytes);
    Copy copy = start_copy(&device, decode ? NULL : zeros, true);
    const uint8_t *to = decode ? copy.host : device.data;
    begin(bed, stream, direction, device.pictures, &clip, 0);
    const bool waited = *to != POISON;
    must(vae_stream_wait(stream, 0, &error), &error);
    expect(!waited && *to == 0, "%s: the host %s for another stream",
           decode ? "decode" : "encode", waited ? "waits" : "does not wait");
    free_copy(&copy);
    vae_stream_free(&stream);
    frames_free(&device);
}

/* The host waits for the frames that the device writes. Without this wait they
 * are not complete. */
static void
is_waited_for(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    Frames device = frames_new(VAE_PIXELS_NV12, clip.frames, true);
    SCOPED_BLOCK uint8_t *want = test_alloc(device.bytes);
    emu_set_eager(0);
    VaeStream *stream = open_stream(bed, VAE_DECODE, VAE_PIXELS_NV12);
    run(bed, stream, VAE_DECODE, device.pictures, &clip);
    memcpy(want, device.data, device.bytes);
    memset(device.data, POISON, device.bytes);
    vae_stream_reset(stream);
    emu_set_fault(EMU_FAULT_HOST_WAIT, LATENTS - 1);
    run(bed, stream, VAE_DECODE, device.pictures, &clip);
    expect(memcmp(want, device.data, device.bytes) != 0 && emu_fault_done(),
           "without the last wait the last frames are incomplete");
    emu_set_fault(EMU_FAULT_NONE, 0);
    vae_stream_free(&stream);
    frames_free(&device);
}

#endif

static void
other_backends_refuse(const Bed *bed)
{
    Bed ref = *bed;
    ref.backend = VAE_BACKEND_REF;
    SCOPED_CLIP TestClip clip = bed_clip(bed, 1, WIDTH, HEIGHT, 0);
    Frames device = frames_new(VAE_PIXELS_RGB, clip.frames, true);
    VaeStream *stream = open_stream(&ref, VAE_DECODE, VAE_PIXELS_RGB);
    const VaeLatentIn latent = {.type = VAE_TYPE_F32, .data = clip.latents};
    VaeError error = {0};
    const VaeStatus status = vae_stream_decode(
        stream, &latent, 1, device.pictures, clip.frames, &error);
    expect(status == VAE_ERR_ARGUMENT &&
               strstr(error.message, "memory of a device"),
           "ref: %s", error.message);
    vae_stream_free(&stream);
    frames_free(&device);
}

/* The stream refuses samples at unaligned addresses, because a kernel would
 * fail and the process would lose the device. */
static void
odd_samples_are_refused(const Bed *bed)
{
    SCOPED_CLIP TestClip clip = bed_clip(bed, LATENTS, WIDTH, HEIGHT, 0);
    static const VaePixels wide[] = {VAE_PIXELS_P010, VAE_PIXELS_RGB_F32};
    for (int i = 0; i < 4; i++) {
        const VaePixels pixels = wide[i / 2];
        Frames device = frames_new(pixels, clip.frames, true);
        VaePicture odd = device.pictures[0];
        VaeStream *stream = open_stream(bed, VAE_DECODE, pixels);
        const VaeLatentIn latent = {.type = VAE_TYPE_F32, .data = clip.latents};
        const int plane = pixels == VAE_PIXELS_P010;
        VaeError error = {0};
        int n_in, n_out;
        if (i % 2)
            odd.stride[plane]++;
        else
            odd.data[plane] += vae_layout(pixels)->bytes / 2;
        VaePicture pictures[FRAMES];
        memcpy(pictures, device.pictures, sizeof pictures);
        pictures[0] = odd;
        vae_stream_count(stream, 1, &n_in, &n_out);
        const VaeStatus status =
            vae_stream_decode(stream, &latent, 1, pictures, n_out, &error);
        expect(status == VAE_ERR_ARGUMENT && strstr(error.message, "multiples"),
               "unaligned samples %d: status %d, %s", i, status, error.message);
        run(bed, stream, VAE_DECODE, device.pictures, &clip);
        vae_stream_free(&stream);
        frames_free(&device);
    }
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2) {
        fprintf(stderr, "usage: on_device MODEL\n");
        return 2;
    }
    bed_open(&bed, argv[1], "cuda", "fp32");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        decode_same(&bed, kinds[i], (unsigned) i);
        encode_same(&bed, kinds[i], 7u - (unsigned) i);
    }
    ready_is_waited_for(&bed, true);
    readers_are_waited_for(&bed, true);
#ifndef VAE_TEST_GPU
    ready_is_waited_for(&bed, false);
    readers_are_waited_for(&bed, false);
    host_goes_on(&bed, VAE_DECODE);
    host_goes_on(&bed, VAE_ENCODE);
    is_waited_for(&bed);
#endif
    other_backends_refuse(&bed);
    odd_samples_are_refused(&bed);
    vae_model_free(&bed.model);
#ifndef VAE_TEST_GPU
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
#endif
    return tests_end();
}
