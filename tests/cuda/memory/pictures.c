/*
 * pictures.c: counts the launches that convert pictures, and the copies of
 * pictures to pinned memory.
 *
 * pictures MODEL STRIDE
 */

#include "../clips.h"
#include "emu_rt.h"
#include "stream.h"

/* One launch converts all pictures of a run. */
static void
launches(const Bed *bed, VaeDirection direction)
{
    SCOPED_CLIP TestClip clip = new_clip(bed);
    SCOPED_STREAM VaeStream *stream = open_stream(bed->model, direction);
    emu_picture_calls();
    run_clip(bed, stream, direction, &clip, calls);
    const int n = emu_picture_calls(), runs = (int) stream->runs;
    expect(n == runs && clip.frames > runs,
           "%s: %d launches for %d pictures in %d runs", name_of(direction), n,
           clip.frames, runs);
}

/* Memory of I420 pictures, with this many bytes between their planes. */
enum { LUMA = SIZE * SIZE, CHROMA = LUMA / 4, MOST = 8, ROOM = 4096 };

static void
lay_out(VaePicture *p, uint8_t *memory, int gap, bool pinned)
{
    for (int i = 0; i < MOST; i++, memory += LUMA + 2 * CHROMA + 3 * gap)
        p[i] = (VaePicture){.pixels = VAE_PIXELS_I420,
                            .width = SIZE,
                            .height = SIZE,
                            .pinned = pinned,
                            .data = {memory, memory + LUMA + gap,
                                     memory + LUMA + CHROMA + 2 * gap},
                            .stride = {SIZE, SIZE / 2, SIZE / 2}};
}

/* Decodes the first step, and then the second; returns its pictures. *copies
 * and *conversions are those of the second. */
static int
decode(VaeStream *stream, const TestClip *clip, const VaePicture *pictures,
       int *copies, int *conversions)
{
    VaeError error;
    int n_in, n_out;
    const VaeLatentIn latent = {.type = VAE_TYPE_F32, .data = clip->latents};
    vae_stream_reset(stream);
    for (int i = 0; i < 2; i++) {
        emu_set_fault(EMU_FAULT_DOWNLOAD, -1);
        emu_picture_calls();
        vae_stream_count(stream, 1, &n_in, &n_out);
        must(vae_stream_decode(stream, &latent, n_in, pictures, n_out, &error),
             &error);
        *copies = emu_fault_count(EMU_FAULT_DOWNLOAD);
        *conversions = emu_picture_calls();
    }
    emu_set_fault(EMU_FAULT_NONE, 0);
    return n_out;
}

/* Counts the pictures that differ, apart from the second one. */
static int
differing(const VaePicture *a, const VaePicture *b, int n)
{
    int wrong = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 3 && i != 1; k++)
            wrong += memcmp(a[i].data[k], b[i].data[k], k ? CHROMA : LUMA) != 0;
    return wrong;
}

/* Adjacent planes are copied at once. Others are not, and the bytes between
 * them do not change. A picture in another format than its neighbours has a
 * separate launch. */
static void
planes(const Bed *bed)
{
    static uint8_t want[ROOM], got[ROOM];
    SCOPED_CLIP TestClip clip = new_clip(bed);
    VaePicture staged[MOST], direct[MOST];
    int copies, conversions;
    VaeStreamParams params = params_of(VAE_DECODE);
    params.pixels = VAE_PIXELS_I420;
    VaeStream *stream = bed_stream(bed, params);
    lay_out(staged, want, 0, false);
    const int n = decode(stream, &clip, staged, &copies, &conversions);
    VaePin *pin = vae_stream_pin(stream, got, sizeof got);
    lay_out(direct, got, 0, true);
    decode(stream, &clip, direct, &copies, &conversions);
    expect(n > 2 && copies == n + 1 && conversions == 1 &&
               memcmp(got, want, sizeof got) == 0,
           "%d copies of %d pictures, %d launches", copies, n, conversions);
    memset(got, 0xee, sizeof got);
    lay_out(direct, got, 7, true);
    decode(stream, &clip, direct, &copies, &conversions);
    expect(copies == 3 * n + 1 && differing(direct, staged, n) == 0 &&
               got[LUMA] == 0xee,
           "%d copies of %d pictures with gaps", copies, n);
    direct[1].full_range = true;
    decode(stream, &clip, direct, &copies, &conversions);
    expect(conversions == 3 && differing(direct, staged, n) == 0 &&
               memcmp(direct[1].data[0], staged[1].data[0], LUMA) != 0,
           "%d launches of %d pictures, one of another range", conversions, n);
    vae_stream_free(&stream);
    vae_pin_free(&pin);
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_device(&bed, argc, argv);
    launches(&bed, VAE_DECODE);
    launches(&bed, VAE_ENCODE);
    planes(&bed);
    return device_close(&bed);
}
