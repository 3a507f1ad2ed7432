/*
 * threads.c: the bytes do not depend on the number of threads, also with odd
 * numbers of channels and on processors with narrow vectors.
 *
 * threads PRECISION
 */
#include "../../golden/odd.h"
#include "../streams.h"

enum { T = 3, MOST = 4 };

static TestClip
decode(const Bed *bed, int width, int height, int threads)
{
    const int plan[] = {1, 0};
    TestClip clip = bed_clip(bed, T, width, height, 0);
    clip_poison(bed, &clip, VAE_DECODE);
    SCOPED_STREAM VaeStream *stream = bed_stream(
        bed, (VaeStreamParams){
                 .width = width, .height = height, .threads = threads});
    expect(vae_stream_get_plan(stream)->threads == threads, "%d threads",
           threads);
    run_clip(bed, stream, VAE_DECODE, &clip, plan);
    return clip;
}

static void
compare(const Bed *bed, int width, int height)
{
    SCOPED_CLIP TestClip one = decode(bed, width, height, 1);
    for (int threads = 2; threads <= MOST; threads++) {
        SCOPED_CLIP TestClip more = decode(bed, width, height, threads);
        same_result(bed, &more, &one, VAE_DECODE, "with more threads");
    }
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2) {
        fprintf(stderr, "usage: threads PRECISION\n");
        return 2;
    }
    bed_open(&bed, "taehv/taew2_1", "cpu", argv[1]);
    compare(&bed, 40, 24);
    bed_rewrite(&bed, odd_write);
    compare(&bed, 24, 16);
    compare(&bed, 104, 56);
    return bed_close(&bed);
}
