/*
 * counts.c: checks how many frames a decoder makes from latents, and how many
 * latents an encoder makes from frames, for every length.
 *
 * counts MODEL BACKEND PRECISION
 */
#include "streams.h"

enum { MAX = 33 };

/* Entry n - 1 is for n latents or n frames. 0 ends a row. */
typedef struct Table {
    int temporal, chunk;
    int frames[MAX + 1]; /* frames of n latents */
    int latents[MAX +
                1]; /* latents of n frames; they decode to at least n frames */
} Table;

static const Table tables[] = {
    {.temporal = 1, .frames = {1, 2, 3, 4, 5}, .latents = {1, 2, 3, 4, 5}},
    {.temporal = 4,
     .frames = {1, 5, 9, 13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61,
                65},
     .latents = {1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5}},
    {.temporal = 8,
     .frames = {1, 9, 17, 25, 33},
     .latents = {1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3,
                 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5}},
    {.temporal = 4,
     .chunk = 5,
     .frames = {1, 5, 9, 13, 17, 18, 22, 26, 30, 34, 35, 39},
     .latents = {1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5,  5,  5, 5,
                 6, 7, 7, 7, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10}},
};

/* Runs a clip with latents of one pixel. Ends the test unless all units are
 * accepted and returned. */
static void
run(const Bed *bed, VaeDirection direction, int t, int frames)
{
    static const int plan[] = {2, 0};
    const int side = bed->info->spatial;
    SCOPED_CLIP TestClip clip = bed_clip(bed, t, side, side, 0);
    clip.frames = frames;
    SCOPED_STREAM VaeStream *stream = bed_slices(bed, direction, side, side, 2);
    run_clip(bed, stream, direction, &clip, plan);
}

static void
every_length(const Bed *bed, const Table *table)
{
    int n = 0;
    for (; table->frames[n]; n++) {
        const int64_t got = vae_model_frames_of(bed->model, n + 1);
        if (expect(got == table->frames[n], "%d latents: %d frames", n + 1,
                   (int) got))
            run(bed, VAE_DECODE, n + 1, table->frames[n]);
    }
    for (n = 0; table->latents[n]; n++) {
        const int64_t got = vae_model_latents_of(bed->model, n + 1);
        if (expect(got == table->latents[n], "%d frames: %d latents", n + 1,
                   (int) got))
            run(bed, VAE_ENCODE, table->latents[n], n + 1);
    }
}

int
main(int argc, char **argv)
{
    Bed bed;
    bed_open_main(&bed, argc, argv);
    bool known = false;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        if (tables[i].temporal == bed.info->temporal &&
            tables[i].chunk == bed.info->chunk) {
            every_length(&bed, &tables[i]);
            known = true;
        }
    expect(known, "a table for %d frames per latent", bed.info->temporal);
    return bed_close(&bed);
}
