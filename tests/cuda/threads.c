/*
 * threads.c: runs streams of one model on one emulated device, each in a
 * separate thread, as the elements of a process do. They open at the same time,
 * free and reload carries and weights, and another thread cancels some
 * sequences. Each stream gives the same results as alone.
 *
 * threads MODEL ROUNDS
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "../stream/streams.h"
#include "emu_rt.h"

enum { LATENTS = 4, SIZE = 16, SIDES = 4 };

typedef struct Side {
    const Bed *bed;
    VaeDirection direction;
    int seed;
    TestClip want;
    int rounds, wrong, failed, cancelled;
    pthread_barrier_t *together;
    VaeStream *stream;
    pthread_mutex_t lock;
    bool cancels; /* the lock protects this: the stream may be cancelled now */
    pthread_t thread;
} Side;

static VaeStream *
open_stream(const Bed *bed, VaeDirection direction)
{
    return bed_slices(bed, direction, SIZE, SIZE, 2);
}

static VaeStatus
run(const Side *s, VaeStream *stream, const TestClip *clip, VaeError *error)
{
    static const int plan[] = {2, 1, 0};
    return try_run(s->bed, stream, s->direction, clip, plan, error);
}

/* Runs one clip while other threads do the same. */
static void
one_clip(Side *s, VaeStream *stream)
{
    SCOPED_CLIP TestClip clip = bed_clip(s->bed, LATENTS, SIZE, SIZE, s->seed);
    size_t bytes;
    VaeError error;
    clip_poison(s->bed, &clip, s->direction);
    vae_stream_reset(stream);
    if (run(s, stream, &clip, &error) != VAE_OK) {
        printf("%s\n", error.message);
        s->failed++;
    }
    const void *found = clip_result(s->bed, &clip, s->direction, &bytes);
    const void *want = clip_result(s->bed, &s->want, s->direction, &bytes);
    s->wrong += memcmp(found, want, bytes) != 0;
}

static void
set_cancels(Side *s, bool cancels)
{
    pthread_mutex_lock(&s->lock);
    s->cancels = cancels;
    pthread_mutex_unlock(&s->lock);
}

/* Runs a clip that is cancelled, as in an element that is flushed. */
static void
cancelled_clip(Side *s, VaeStream *stream)
{
    SCOPED_CLIP TestClip clip = bed_clip(s->bed, LATENTS, SIZE, SIZE, s->seed);
    VaeError error;
    vae_stream_reset(stream);
    set_cancels(s, true);
    const VaeStatus status = run(s, stream, &clip, &error);
    set_cancels(s, false);
    s->cancelled += status == VAE_ERR_CANCELLED;
    s->failed += status != VAE_OK && status != VAE_ERR_CANCELLED;
}

static void *
side_main(void *user)
{
    Side *s = user;
    VaeError error;
    for (int i = 0; i < s->rounds; i++) {
        pthread_barrier_wait(s->together);
        s->stream = open_stream(s->bed, s->direction);
        pthread_barrier_wait(s->together); /* all streams are open */
        for (int k = 0; k < 2; k++) {
            one_clip(s, s->stream);
            s->failed += vae_stream_release(s->stream, &error) != VAE_OK;
            pthread_barrier_wait(s->together);
            one_clip(s, s->stream);
            cancelled_clip(s, s->stream);
        }
        pthread_barrier_wait(s->together);
        vae_stream_free(&s->stream);
    }
    return NULL;
}

typedef struct Canceller {
    Side *sides;
    atomic_bool ended;
} Canceller;

/* Cancels streams now and then. */
static void *
canceller_main(void *user)
{
    Canceller *c = user;
    uint32_t state = 1;
    while (!atomic_load(&c->ended)) {
        state = state * 1664525u + 1013904223u;
        Side *s = &c->sides[(state >> 16) % SIDES];
        pthread_mutex_lock(&s->lock);
        if (s->cancels && state >> 29 == 7)
            vae_stream_cancel(s->stream);
        pthread_mutex_unlock(&s->lock);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return NULL;
}

int
main(int argc, char **argv)
{
    Bed bed;
    Side sides[SIDES] = {0};
    Canceller canceller = {.sides = sides};
    pthread_barrier_t together;
    pthread_t thread;
    int wrong = 0, failed = 0, cancelled = 0;
    const int rounds = bed_open_device(&bed, argc, argv);
    pthread_barrier_init(&together, NULL, SIDES);
    for (int i = 0; i < SIDES; i++) {
        Side *s = &sides[i];
        s->bed = &bed;
        s->direction = i < SIDES - 1 ? VAE_DECODE : VAE_ENCODE;
        s->seed = i;
        s->rounds = rounds;
        s->together = &together;
        pthread_mutex_init(&s->lock, NULL);
        s->want = bed_clip(&bed, LATENTS, SIZE, SIZE, i);
        VaeError error;
        SCOPED_STREAM VaeStream *stream = open_stream(&bed, s->direction);
        must(run(s, stream, &s->want, &error), &error);
    }
    for (int i = 0; i < SIDES; i++)
        if (pthread_create(&sides[i].thread, NULL, side_main, &sides[i]) != 0)
            return 1;
    if (pthread_create(&thread, NULL, canceller_main, &canceller) != 0)
        return 1;
    for (int i = 0; i < SIDES; i++)
        pthread_join(sides[i].thread, NULL);
    atomic_store(&canceller.ended, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < SIDES; i++) {
        wrong += sides[i].wrong;
        failed += sides[i].failed;
        cancelled += sides[i].cancelled;
        clip_free(&sides[i].want);
        pthread_mutex_destroy(&sides[i].lock);
    }
    expect(wrong == 0 && failed == 0 && cancelled > 0,
           "%d streams at the same time, %d times: %d wrong results, %d "
           "failures, %d cancelled",
           SIDES, rounds, wrong, failed, cancelled);
    pthread_barrier_destroy(&together);
    vae_model_free(&bed.model);
    expect(emu_alive() == 0, "%d objects of the device are not freed",
           emu_alive());
    return tests_end();
}
