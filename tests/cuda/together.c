/*
 * together.c: a second stream of a model is opened while the first one opens.
 * Both load the weights only once.
 *
 * together MODEL
 */

#include <pthread.h>
#include <time.h>

#include "clips.h"
#include "emu_rt.h"

/* Opens a second stream while the first one times its convolutions. */
typedef struct Second {
    VaeModel *model;
    VaeStream *stream;
    int line, at;
} Second;

static void *
open_now(void *user)
{
    Second *s = user;
    VaeError error;
    const VaeStreamParams params = params_of(VAE_DECODE);
    must(vae_stream_new(s->model, &params, &s->stream, &error), &error);
    return NULL;
}

/* A log function that waits for another thread. The stream must therefore hold
 * no lock while it logs. */
static void
open_second(void *user, const char *line)
{
    Second *s = user;
    pthread_t thread;
    struct timespec end;
    if (!strstr(line, "fastest of") || ++s->line != s->at)
        return;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 120;
    if (pthread_create(&thread, NULL, open_now, s) != 0 ||
        pthread_timedjoin_np(thread, NULL, &end) != 0) {
        printf("FAIL: the log function waits for a stream that waits for it\n");
        exit(1);
    }
}

/* Returns the bytes of two streams of one model. The second stream is opened
 * after the first or, if at is not 0, when the first has prepared `at` layers.
 */
static uint64_t
bytes_of_two(const Bed *bed, int at)
{
    Second second = {.at = at};
    VaeStreamParams params = params_of(VAE_DECODE);
    VaeError error;
    uint64_t before, after;
    must(vae_model_open(bed->info->path, NULL, &second.model, &error), &error);
    params.deterministic = false; /* otherwise it logs nothing */
    params.log = open_second;
    params.log_user = &second;
    vae_rt_memory_left(&before);
    VaeStream *stream = new_stream(second.model, &params);
    if (!second.stream)
        open_now(&second);
    vae_rt_memory_left(&after);
    expect(at == 0 || second.line > at,
           "%d layers are timed, the second stream opens at number %d",
           second.line, at);
    vae_stream_free(&stream);
    vae_stream_free(&second.stream);
    vae_model_free(&second.model);
    return before - after;
}

int
main(int argc, char **argv)
{
    Bed bed;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2) {
        fprintf(stderr, "usage: together MODEL\n");
        return 2;
    }
    bed_open(&bed, argv[1], "cuda", "fp32");
    /* Times cannot be stored, so each stream logs its layers. */
    setenv("XDG_CACHE_HOME", "", 1);
    setenv("HOME", "", 1);
    const uint64_t want = bytes_of_two(&bed, 0);
    for (int at = 2; at < 16; at += 6) {
        const uint64_t found = bytes_of_two(&bed, at);
        expect(found == want,
               "opened at the same time: %llu bytes of the device; one after "
               "another: %llu",
               (unsigned long long) found, (unsigned long long) want);
    }
    return device_close(&bed);
}
