/*
 * storm.c: eight threads open, run, reset and free streams. Another thread
 * cancels them at random moments, also while they open. A call ends as expected
 * or with VAE_ERR_CANCELLED. A clip that is not cancelled has the bytes of an
 * undisturbed run.
 *
 * storm MODEL BACKEND PRECISION
 */
#include "streams.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 8, ROUNDS = 6, T = 3, W = 16, H = 16 };

typedef struct Worker {
    pthread_t thread;
    pthread_mutex_t lock; /* guards stream */
    VaeStream *stream;
    VaeDirection direction;
    atomic_bool stops; /* ends the opening */
    int index, done, cancelled, bad;
} Worker;

static char **args; /* MODEL BACKEND PRECISION */
static Bed bed;
static TestClip want[2]; /* by direction */
static Worker workers[THREADS];
static atomic_int running;

static bool
gives_up(void *user)
{
    Worker *w = user;
    return atomic_exchange(&w->stops, false);
}

static void
set_stream(Worker *w, VaeStream *stream)
{
    pthread_mutex_lock(&w->lock);
    w->stream = stream;
    pthread_mutex_unlock(&w->lock);
}

/* Returns VAE_OK, or the status that ended the clip. */
static VaeStatus
run(Worker *w, VaeStream *stream, TestClip *clip, VaeError *error)
{
    const int plan[] = {1, 2, 0};
    clip_poison(&bed, clip, w->direction);
    vae_stream_reset(stream);
    return try_run(&bed, stream, w->direction, clip, plan, error);
}

static void
take(Worker *w, VaeStatus status, const TestClip *clip, const VaeError *error)
{
    size_t n;
    const void *got = clip_result(&bed, clip, w->direction, &n);
    if (status == VAE_OK) {
        w->done++;
        w->bad += memcmp(got,
                         clip_result(&bed, &want[w->direction], w->direction,
                                     &(size_t){0}),
                         n) != 0;
    } else if (status == VAE_ERR_CANCELLED) {
        w->cancelled++;
    } else {
        printf("%s\n", error->message);
        w->bad++;
    }
}

static void *
work(void *user)
{
    Worker *w = user;
    Bed own = bed; /* every second worker has its own model */
    TestClip clips[2];
    if (w->index % 2)
        bed_open(&own, args[1], args[2], args[3]);
    for (int d = 0; d < 2; d++)
        clips[d] = bed_clip(&bed, T, W, H, 0);
    for (int i = 0; i < ROUNDS; i++) {
        VaeError error = {0};
        SCOPED_STREAM VaeStream *stream = NULL;
        w->direction = (w->index / 2 + i) % 2 ? VAE_ENCODE : VAE_DECODE;
        TestClip *clip = &clips[w->direction];
        const VaeStreamParams params = {.struct_size = sizeof params,
                                        .direction = w->direction,
                                        .backend = bed.backend,
                                        .precision = bed.precision,
                                        .threads = 1,
                                        .width = W,
                                        .height = H,
                                        .slice_size = 2,
                                        .cancelled = gives_up,
                                        .log_user = w};
        VaeStatus status = vae_stream_new(own.model, &params, &stream, &error);
        if (status != VAE_OK) {
            take(w, status, clip, &error);
            continue;
        }
        set_stream(w, stream);
        for (int k = 0; k < 2; k++)
            take(w, run(w, stream, clip, &error), clip, &error);
        set_stream(w, NULL);
    }
    for (int d = 0; d < 2; d++)
        clip_free(&clips[d]);
    if (w->index % 2)
        vae_model_free(&own.model);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

static uint64_t
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Cancels some clips, and lets others end. clip_ns: the time of a clip alone.
 */
static void
cancel_some(uint64_t clip_ns)
{
    unsigned seed = 1;
    while (atomic_load(&running) > 0) {
        const uint64_t ns =
            2 * clip_ns / 100 * ((unsigned) rand_r(&seed) % 100);
        const struct timespec pause = {.tv_sec = (time_t) (ns / 1000000000u),
                                       .tv_nsec = (long) (ns % 1000000000u)};
        Worker *w = &workers[rand_r(&seed) % THREADS];
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&w->lock);
        if (w->stream)
            vae_stream_cancel(w->stream);
        else
            atomic_store(&w->stops, true);
        pthread_mutex_unlock(&w->lock);
    }
}

int
main(int argc, char **argv)
{
    const int plan[] = {1, 2, 0};
    int done = 0, cancelled = 0, bad = 0;
    uint64_t began = 0, clip_ns = 0;
    args = argv;
    bed_open_main(&bed, argc, argv);
    for (int d = 0; d < 2; d++) {
        SCOPED_STREAM VaeStream *stream =
            bed_slices(&bed, (VaeDirection) d, W, H, 2);
        want[d] = bed_clip(&bed, T, W, H, 0);
        began = now_ns();
        run_clip(&bed, stream, (VaeDirection) d, &want[d], plan);
        clip_ns += (now_ns() - began) / 2;
    }
    atomic_store(&running, THREADS);
    for (int i = 0; i < THREADS; i++) {
        workers[i].index = i;
        pthread_mutex_init(&workers[i].lock, NULL);
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    cancel_some(clip_ns);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        pthread_mutex_destroy(&workers[i].lock);
        done += workers[i].done;
        cancelled += workers[i].cancelled;
        bad += workers[i].bad;
    }
    expect(bad == 0 && cancelled > 0, "%d clips, %d cancelled, %d wrong", done,
           cancelled, bad);
    clip_free(&want[0]);
    clip_free(&want[1]);
    return bed_close(&bed);
}
