/*
 * choices.c: streams of one process that are open at the same time use the same
 * kernel for a layer, and only one of them times it.
 */
#include <pthread.h>

#include "../../stream/streams.h"
#include "emu_rt.h"
#include "stream.h"

static VaeStream *
open_one(const Bed *bed, bool deterministic)
{
    return bed_stream(bed, (VaeStreamParams){.width = 16,
                                             .height = 16,
                                             .slice_size = 2,
                                             .deterministic = deterministic});
}

static void *
open_stream(void *user)
{
    return open_one(user, false);
}

/* Returns the number of convolutions that another kernel than `way` computes.
 */
static int
others(const VaeStream *stream, const char *way)
{
    return convs_by(stream, NULL) - convs_by(stream, way);
}

/* The second stream uses the choices of the first, even if the times varied too
 * much to be stored and another choice is faster now. After both have closed,
 * layers are timed again. */
static void
one_beside_another(Bed *bed)
{
    emu_set_conv_times(3, 1, 2);
    emu_set_conv_jitter(1.5f);
    VaeStream *first = open_stream(bed);
    emu_conv_searches();
    emu_conv_runs();
    emu_set_conv_times(2, 3, 1);
    VaeStream *second = open_stream(bed);
    const int searches = emu_conv_searches(), runs = emu_conv_runs();
    expect(others(first, "cudnn:2 1") == 0 &&
               others(second, "cudnn:2 1") == 0 && searches == 0 && runs == 0,
           "beside an open stream: %d and %d convolutions by another choice, "
           "%d searches, %d runs",
           others(first, "cudnn:2 1"), others(second, "cudnn:2 1"), searches,
           runs);
    vae_stream_free(&first);
    vae_stream_free(&second);
    first = open_stream(bed);
    expect(others(first, "cudnn:3 2") == 0 && emu_conv_runs() > 0,
           "after both are closed: %d by another choice",
           others(first, "cudnn:3 2"));
    vae_stream_free(&first);
    emu_set_conv_jitter(1);
}

/* Deterministic streams share the first suggestion, which they search once, and
 * timed streams the fastest choice. */
static void
both_kinds(const Bed *bed)
{
    VaeStream *streams[5];
    int wrong = 0, searches = 0;
    emu_set_devices(1, 93);
    emu_set_conv_times(3, 1, 2);
    for (int i = 0; i < 5; i++) {
        const bool deterministic = i % 2;
        emu_conv_searches();
        streams[i] = open_one(bed, deterministic);
        wrong += others(streams[i], deterministic ? "cudnn:1 3" : "cudnn:2 1");
        searches += i < 2 ? 0 : emu_conv_searches();
    }
    expect(wrong == 0 && searches == 0,
           "a deterministic and a timed stream: %d convolutions by another "
           "choice, %d searches",
           wrong, searches);
    for (int i = 0; i < 5; i++)
        vae_stream_free(&streams[i]);
    emu_conv_runs();
}

/* Two streams that open at the same time run each choice as often as a single
 * stream. */
static void
two_at_once(Bed *bed)
{
    pthread_t thread;
    void *second;
    emu_set_devices(1, 91);
    SCOPED_STREAM VaeStream *first = open_stream(bed);
    vae_stream_free(&first);
    const int alone = emu_conv_runs();
    emu_set_devices(1, 92);
    if (pthread_create(&thread, NULL, open_stream, bed) != 0)
        exit(1);
    first = open_stream(bed);
    pthread_join(thread, &second);
    VaeStream *beside = second;
    const int both = emu_conv_runs();
    expect(alone > 0 && both == alone, "%d runs for two streams, %d for one",
           both, alone);
    vae_stream_free(&beside);
}

int
main(void)
{
    Bed bed;
    char root[] = "/tmp/vae-choices-XXXXXX", command[64];
    bed_open(&bed, "taehv/taew2_1", "cuda", "fp32");
    if (!mkdtemp(root))
        return 1;
    setenv("XDG_CACHE_HOME", root, 1);
    setenv("VAE_CUDA_GRAPHS", "0", 1);
    one_beside_another(&bed);
    both_kinds(&bed);
    two_at_once(&bed);
    snprintf(command, sizeof command, "rm -rf %s", root);
    expect(system(command) == 0, "%s", command);
    vae_model_free(&bed.model);
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
