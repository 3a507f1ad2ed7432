/*
 * race.c: checks that ThreadSanitizer finds a race, and that it reports none
 * where GLib or a buffer pool synchronises.
 *
 *   race none    two threads count without a lock
 *   race KIND    the same, synchronised by KIND
 *
 * ThreadSanitizer ends the first run with its own exit status. The other runs
 * end with 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gst/gst.h>

enum { TIMES = 2000 };

/* Used through a pointer, so that the compiler keeps each access. */
static struct {
    GMutex mutex;
    GCond cond;
    GRecMutex rec;
    GRWLock rw;
    GOnce once;
    gsize initialised;
    GAsyncQueue *queue;
    GstBufferPool *pool;
    gint turn; /* the side that may count; for cond */
    volatile int count;
} all;

static void
by_none(int side)
{
    for (int i = 0; i < TIMES; i++)
        all.count++;
}

static void
by_mutex(int side)
{
    for (int i = 0; i < TIMES; i++) {
        if (i % 2 == 0 || !g_mutex_trylock(&all.mutex))
            g_mutex_lock(&all.mutex);
        all.count++;
        g_mutex_unlock(&all.mutex);
    }
}

/* The two sides take turns. Half of the waits have a timeout. */
static void
by_cond(int side)
{
    g_mutex_lock(&all.mutex);
    for (int i = 0; i < TIMES; i++) {
        while (all.turn != side)
            if (i % 2 == 0)
                g_cond_wait(&all.cond, &all.mutex);
            else
                g_cond_wait_until(&all.cond, &all.mutex,
                                  g_get_monotonic_time() + 1000);
        all.count++;
        all.turn = !side;
        g_cond_signal(&all.cond);
    }
    g_mutex_unlock(&all.mutex);
}

static void
by_rec(int side)
{
    for (int i = 0; i < TIMES; i++) {
        g_rec_mutex_lock(&all.rec);
        g_rec_mutex_lock(&all.rec);
        all.count++;
        g_rec_mutex_unlock(&all.rec);
        all.count++;
        g_rec_mutex_unlock(&all.rec);
    }
}

static void
by_rw(int side)
{
    int seen = 0;
    for (int i = 0; i < TIMES; i++) {
        g_rw_lock_reader_lock(&all.rw);
        seen += all.count;
        g_rw_lock_reader_unlock(&all.rw);
        g_rw_lock_writer_lock(&all.rw);
        all.count = seen;
        g_rw_lock_writer_unlock(&all.rw);
    }
}

static gpointer
count_once(gpointer data)
{
    all.count++;
    return &all;
}

/* Both sides read the value that one of them created. */
static void
by_once(int side)
{
    g_once(&all.once, count_once, NULL);
    if (all.count != 1)
        exit(2);
}

static void
by_init(int side)
{
    if (g_once_init_enter(&all.initialised)) {
        all.count++;
        g_once_init_leave(&all.initialised, 1);
    }
    if (all.count != 1)
        exit(2);
}

/* One side produces, the other consumes. */
static void
by_queue(int side)
{
    for (int i = 0; i < TIMES; i++) {
        int *made = side ? g_new(int, 1) : g_async_queue_pop(all.queue);
        if (side) {
            *made = i;
            g_async_queue_push(all.queue, made);
        } else {
            if (*made != i)
                exit(2);
            g_free(made);
        }
    }
}

/* The count is in the pool's only buffer. */
static void
by_pool(int side)
{
    for (int i = 0; i < TIMES / 10; i++) {
        g_autoptr(GstBuffer) buffer = NULL;
        if (gst_buffer_pool_acquire_buffer(all.pool, &buffer, NULL) !=
            GST_FLOW_OK)
            exit(2);
        GST_BUFFER_OFFSET(buffer) = (guint64) i;
    }
}

static GstBufferPool *
make_pool(void)
{
    GstBufferPool *pool = gst_buffer_pool_new();
    GstStructure *config = gst_buffer_pool_get_config(pool);
    gst_buffer_pool_config_set_params(config, NULL, 16, 1, 1);
    if (!gst_buffer_pool_set_config(pool, config) ||
        !gst_buffer_pool_set_active(pool, TRUE))
        exit(2);
    return pool;
}

static const struct {
    const char *name;
    void (*run)(int side);
} kinds[] = {{"none", by_none}, {"mutex", by_mutex}, {"cond", by_cond},
             {"rec", by_rec},   {"rw", by_rw},       {"once", by_once},
             {"init", by_init}, {"queue", by_queue}, {"pool", by_pool}};

static gpointer
run_other(gpointer data)
{
    ((void (*)(int)) data)(1);
    return NULL;
}

int
main(int argc, char **argv)
{
    for (guint i = 0; argc == 2 && i < G_N_ELEMENTS(kinds); i++) {
        if (strcmp(argv[1], kinds[i].name) != 0)
            continue;
        gst_init(NULL, NULL);
        all.queue = g_async_queue_new();
        all.pool = make_pool();
        GThread *other = g_thread_new("other", run_other, kinds[i].run);
        kinds[i].run(0);
        g_thread_join(other);
        g_async_queue_unref(all.queue);
        gst_buffer_pool_set_active(all.pool, FALSE);
        gst_object_unref(all.pool);
        printf("%s: %d\n", kinds[i].name, all.count);
        return 0;
    }
    fprintf(stderr, "usage: race KIND\n");
    return 2;
}
