/*
 * memory.c: 225 latents take no more memory than 3.
 *
 * memory MODEL BACKEND PRECISION [HISTORY SIZE CALLS]
 *
 * Pictures have SIZE rows and columns. There is one call for the first latent,
 * and then there are CALLS for two latents each. Each length runs in a separate
 * process, because a peak is that of a whole process.
 */
#include "../streams.h"

#include <sys/resource.h>
#include <sys/wait.h>

enum { SLICE = 2 };

static VaeStreamParams params = {
    .width = 32, .height = 32, .slice_size = SLICE};
static int most_calls = 112;

/* Makes one call for the first step and `calls` for slices of two steps, always
 * with the same pictures. */
static void
work(char **argv, int calls)
{
    const VaeDirection direction = params.direction;
    Bed bed;
    VaeError error;
    VaeLatentIn latents[SLICE];
    VaeLatentOut results[SLICE];
    VaePicture pictures[8 * SLICE];
    int n_in, n_out;
    bed_open(&bed, argv[1], argv[2], argv[3]);
    bed.threads = 2;
    TestClip clip = bed_clip(&bed, 1, params.width, params.height, 0);
    VaeStream *stream = bed_stream(&bed, params);
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
peak(char **argv, int calls)
{
    struct rusage usage;
    int status;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        work(argv, calls);
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
    if (argc != 4 && argc != 7) {
        fprintf(stderr, "usage: memory MODEL BACKEND PRECISION "
                        "[HISTORY SIZE CALLS]\n");
        return 2;
    }
    if (argc == 7) {
        params.history = atoi(argv[4]);
        params.width = params.height = atoi(argv[5]);
        most_calls = atoi(argv[6]);
    }
    for (int i = 0; i < 2; i++) {
        params.direction = directions[i];
        const long few = peak(argv, 1);
        const long many = peak(argv, most_calls);
        /* Allows for some pages of stacks and libraries. */
        expect(many <= few + 512,
               "%s: peak %ld KiB for %d latents, %ld KiB for %d",
               directions[i] == VAE_DECODE ? "decode" : "encode", few,
               1 + SLICE, many, 1 + SLICE * most_calls);
    }
    return tests_end();
}
