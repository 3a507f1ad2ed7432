/*
 * memory.c: 900 frames take no more memory than 9.
 *
 * memory MODEL BACKEND PRECISION. Each length runs in a separate process,
 * because a peak is that of a whole process.
 */
#include "../streams.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { SIZE = 32, SLICE = 2 };

/* Makes one call for the first step and `calls` for slices of two steps, always
 * with the same pictures. */
static void
work(char **argv, VaeDirection direction, int calls)
{
    Bed bed;
    VaeError error;
    VaeLatentIn latents[SLICE];
    VaeLatentOut results[SLICE];
    VaePicture pictures[8 * SLICE];
    int n_in, n_out;
    bed_open(&bed, argv[1], argv[2], argv[3]);
    bed.threads = 2;
    TestClip clip = bed_clip(&bed, 1, SIZE, SIZE, 0);
    VaeStream *stream = bed_slices(&bed, direction, SIZE, SIZE, SLICE);
    for (int i = 0; i < SLICE; i++) {
        latents[i] = (VaeLatentIn){.type = VAE_TYPE_F32, .data = clip.latents};
        results[i] = (VaeLatentOut){.type = VAE_TYPE_F32, .data = clip.latents};
    }
    for (int i = 0; i < 8 * SLICE; i++)
        pictures[i] = clip_picture(&clip, NULL, 0);
    for (int i = 0; i <= calls; i++) {
        vae_stream_count(stream, i ? SLICE : 1, &n_in, &n_out);
        if (direction == VAE_DECODE)
            must(vae_stream_decode(stream, latents, n_in, pictures, n_out,
                                   &error),
                 &error);
        else
            must(vae_stream_encode(stream, pictures, n_in, results, n_out,
                                   &error),
                 &error);
    }
    vae_stream_free(&stream);
    clip_free(&clip);
    vae_model_free(&bed.model);
}

/* Returns the peak in KiB. If the child failed, ends the test with its
 * status. */
static long
peak(char **argv, VaeDirection direction, int calls)
{
    struct rusage usage;
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        work(argv, direction, calls);
        _exit(0);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child) {
        perror("fork");
        exit(1);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    return usage.ru_maxrss;
}

int
main(int argc, char **argv)
{
    static const VaeDirection directions[] = {VAE_DECODE, VAE_ENCODE};
    if (argc != 4) {
        fprintf(stderr, "usage: memory MODEL BACKEND PRECISION\n");
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        const long few = peak(argv, directions[i], 1);
        const long many = peak(argv, directions[i], 112);
        /* Allows for some pages of stacks and libraries. */
        expect(many <= few + 512, "%s: peak %ld KiB in 2 calls, %ld KiB in 113",
               directions[i] == VAE_DECODE ? "decode" : "encode", few, many);
    }
    return tests_end();
}
