/*
 * segments.c: a clip is cut into segments that several streams decode at the
 * same time. pipelines/cluster/segments.py cuts in the same way.
 */
#include <pthread.h>
#include <stdlib.h>

#include "tool.h"

enum { ROUNDS_MAX = 8 };

/* The work of all segments together, in latents. */
static int64_t
work_of(int64_t latents, int64_t n, int64_t cost)
{
    return latents + (n - 1) * cost;
}

/* With more segments than workers, a failure loses less time, and workers of
 * different speed end together. They may cost 3 % more work. */
static int
count_segments(int latents, int workers, int cost)
{
    const int64_t least = cost > 1 ? (cost + 1) / 2 : 1;
    const int64_t most = (latents - cost) / least;
    int64_t n = workers < most ? workers : most;
    if (n < 2)
        return 1;
    const int64_t work = work_of(latents, n, cost);
    int rounds = 1;
    while (rounds < ROUNDS_MAX && n * (rounds + 1) <= most &&
           100 * work_of(latents, n * (rounds + 1), cost) <= 103 * work)
        rounds++;
    return (int) n * rounds;
}

VaeStatus
segments_cut(const Cut *cut, Segment **out, int *n_out, VaeError *error)
{
    const int latents = cut->latents, history = cut->history;
    const int n = count_segments(latents, cut->workers, cut->cost);
    Segment *list = calloc((size_t) n, sizeof *list);
    if (!list)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d segments", n);
    for (int i = 0; i < n; i++) {
        const int64_t shared = n > 1 ? latents - cut->cost : latents;
        const int before = latents - (int) shared;
        Segment *s = &list[i];
        /* The first segment has nothing to look back to, so it is longer. */
        s->first = i == 0 ? 0 : before + (int) (shared * i / n);
        s->end = before + (int) (shared * (i + 1) / n);
        s->begin = s->first > history ? s->first - history : 0;
    }
    *out = list;
    *n_out = n;
    return VAE_OK;
}

typedef struct Queue {
    const SegmentJob *job;
    pthread_mutex_t lock;
    int next;         /* segment; all below are taken */
    VaeStatus status; /* of the first failure */
    VaeError error;
} Queue;

typedef struct Worker {
    Queue *queue;
    int index;
    pthread_t thread;
} Worker;

/* Returns NULL if there is nothing left to do, or if a segment has failed. */
static const Segment *
take(Queue *q)
{
    const Segment *s = NULL;
    pthread_mutex_lock(&q->lock);
    if (q->status == VAE_OK && q->next < q->job->n)
        s = &q->job->segments[q->next++];
    pthread_mutex_unlock(&q->lock);
    return s;
}

static void *
work(void *data)
{
    Worker *w = data;
    Queue *q = w->queue;
    const Segment *s;
    while ((s = take(q))) {
        VaeError error = {0};
        const VaeStatus status = q->job->run(q->job->user, w->index, s, &error);
        if (status == VAE_OK)
            continue;
        pthread_mutex_lock(&q->lock);
        const bool first = q->status == VAE_OK;
        if (first) {
            q->status = status;
            q->error = error;
        }
        pthread_mutex_unlock(&q->lock);
        if (first)
            q->job->stop(q->job->user);
    }
    return NULL;
}

VaeStatus
segments_run(const SegmentJob *job, VaeError *error)
{
    Queue q = {.job = job, .lock = PTHREAD_MUTEX_INITIALIZER};
    Worker *workers = calloc((size_t) job->workers, sizeof *workers);
    int started = 1;
    if (!workers)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for %d threads",
                        job->workers);
    workers[0] = (Worker){.queue = &q};
    /* The calling thread is the first worker. If a thread cannot start, the
     * others do its work. */
    for (; started < job->workers; started++) {
        workers[started] = (Worker){.queue = &q, .index = started};
        if (pthread_create(&workers[started].thread, NULL, work,
                           &workers[started]) != 0)
            break;
    }
    work(&workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
    if (q.status != VAE_OK && error)
        *error = q.error;
    return q.status;
}
