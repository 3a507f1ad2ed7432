/*
 * soak.c: runs a pipeline for a long time and disturbs it again and again.
 *
 *   soak SECONDS SEED MODEL [STREAMS]
 *
 * The pipeline encodes and decodes a moving pattern. The test compares the
 * frames with those of a short run without disturbance. At random times it
 * flushes the pipeline, pauses it, or sets it to READY or NULL. The pipeline
 * then begins again with the first frame. SEED seeds the random numbers.
 * STREAMS other pipelines come and go meanwhile, and replace their models.
 *
 * At the end, the process must not use more memory than at the beginning. A
 * frame must not need more processor time, and the elements must not hold more
 * frames. On a busy machine the test runs longer, until it has enough samples.
 */
#ifdef HAVE_MALLINFO2
#include <malloc.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gst/gst.h>

/* The pattern repeats after four frames. Both networks look back less than
 * 2 x 38 latents. From this frame on, the decoded frames repeat as well. */
enum { PERIOD = 4, KNOWN = 4 * 80 + 1, FPS = 16 };
/* The frame at which the test measures the memory of a run. All programs have
 * run by then. */
enum { SAMPLE_AT = 24, MIN_SAMPLES = 64, MAX_SAMPLES = 100000 };
enum { MAX_STREAMS = 16 };
/* The memory that libraries allocate and free again for a time in each
 * pipeline: pages, and bytes from malloc(). */
#define NOISE_PAGES (2.0 * 1024 * 1024)
#define NOISE_HELD (0.25 * 1024 * 1024)

typedef struct Soak {
    GstElement *pipeline;
    /* Written by the streaming thread, guarded by the lock. */
    GMutex lock;
    GCond more;
    gboolean recording;
    guint64 known[KNOWN];
    gint64 next;    /* frame expected */
    gint64 entered; /* last frame that the source sent */
    guint64 frames, wrong;
    double pages[MAX_SAMPLES], held[MAX_SAMPLES]; /* bytes */
    double cpu[MAX_SAMPLES];                      /* seconds a frame */
    double behind[MAX_SAMPLES]; /* frames inside the elements */
    double threads[MAX_SAMPLES];
    double cpu_before;
    guint64 frames_before;
    guint n;
    guint flushes, states;
    GstElement *streams[MAX_STREAMS]; /* the other pipelines */
    guint n_streams;
    gchar *models[2]; /* two paths of the model */
} Soak;

/* Returns the bytes of mapped files. */
static double
mapped(void)
{
    char line[512];
    double bytes = 0;
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to, inode;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) == 3 &&
            inode != 0)
            bytes += (double) (to - from);
    }
    if (f)
        fclose(f);
    return bytes;
}

/* Returns the bytes of the process's pages. Mapped files count in full, because
 * the system drops and reads their pages at any time. */
static double
resident(void)
{
    char line[128];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long n;
        if (sscanf(line, "RssAnon: %lu", &n) == 1 ||
            sscanf(line, "RssShmem: %lu", &n) == 1)
            kib += (double) n;
    }
    if (f)
        fclose(f);
    return 1024 * kib + mapped();
}

static double
count_threads(void)
{
    g_autoptr(GDir) tasks = g_dir_open("/proc/self/task", 0, NULL);
    double n = 0;
    while (tasks && g_dir_read_name(tasks))
        n++;
    return n;
}

/* Returns the bytes from malloc() that are not freed yet. */
static double
held(void)
{
#ifdef HAVE_MALLINFO2
    const struct mallinfo2 info = mallinfo2();
    return (double) info.uordblks + (double) info.hblkhd;
#else
    return 0;
#endif
}

static double
cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double) (u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* The FNV-1a hash of a frame. */
static guint64
hash(GstBuffer *buffer)
{
    GstMapInfo map;
    guint64 h = G_GUINT64_CONSTANT(0xcbf29ce484222325);
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
        exit(1);
    for (gsize i = 0; i < map.size; i++)
        h = (h ^ map.data[i]) * G_GUINT64_CONSTANT(0x100000001b3);
    gst_buffer_unmap(buffer, &map);
    return h;
}

static guint64
known(const Soak *s, gint64 k)
{
    if (k >= KNOWN)
        k = KNOWN - PERIOD + (k - KNOWN) % PERIOD;
    return s->known[k];
}

static void
take(Soak *s, gint64 k, guint64 found)
{
    if (s->recording) {
        if (k < KNOWN)
            s->known[k] = found;
    } else if (k != s->next || found != known(s, k)) {
        if (s->wrong++ < 10)
            printf("frame %" G_GINT64_FORMAT
                   " of a run, expected %" G_GINT64_FORMAT ": %s\n",
                   k, s->next, k == s->next ? "other bytes" : "out of order");
    }
    s->next = k + 1;
    s->frames++;
    if (!s->recording && k == SAMPLE_AT && s->n < MAX_SAMPLES) {
        const double cpu = cpu_seconds();
#ifdef HAVE_MALLINFO2
        malloc_trim(0); /* free pages that malloc() keeps vary by chance */
#endif
        s->pages[s->n] = resident();
        s->held[s->n] = held();
        s->threads[s->n] = count_threads();
        s->cpu[s->n] =
            (cpu - s->cpu_before) / (double) (s->frames - s->frames_before);
        s->behind[s->n] = (double) (s->entered - k);
        s->cpu_before = cpu;
        s->frames_before = s->frames;
        s->n++;
    }
}

/* The frames begin again after a flush and in a new stream. */
static void
on_event(Soak *s, const GstEvent *event)
{
    g_mutex_lock(&s->lock);
    if (GST_EVENT_TYPE(event) == GST_EVENT_FLUSH_STOP ||
        GST_EVENT_TYPE(event) == GST_EVENT_STREAM_START)
        s->next = 0;
    g_mutex_unlock(&s->lock);
}

static gint64
number_of(GstBuffer *buffer)
{
    return (gint64) gst_util_uint64_scale_round(GST_BUFFER_PTS(buffer), FPS,
                                                GST_SECOND);
}

static GstPadProbeReturn
on_source(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Soak *s = data;
    g_mutex_lock(&s->lock);
    s->entered = number_of(GST_PAD_PROBE_INFO_BUFFER(info));
    g_mutex_unlock(&s->lock);
    return GST_PAD_PROBE_OK;
}

static GstPadProbeReturn
on_data(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Soak *s = data;
    if (!(info->type & GST_PAD_PROBE_TYPE_BUFFER)) {
        on_event(s, GST_PAD_PROBE_INFO_EVENT(info));
        return GST_PAD_PROBE_OK;
    }
    GstBuffer *buffer = GST_PAD_PROBE_INFO_BUFFER(info);
    const gint64 k = number_of(buffer);
    const guint64 found = hash(buffer);
    g_mutex_lock(&s->lock);
    take(s, k, found);
    g_cond_signal(&s->more);
    g_mutex_unlock(&s->lock);
    return GST_PAD_PROBE_OK;
}

static void
fail_on_error_of(GstElement *pipeline)
{
    g_autoptr(GstBus) bus = gst_element_get_bus(pipeline);
    GstMessage *m = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
    GError *error = NULL;
    if (!m)
        return;
    gst_message_parse_error(m, &error, NULL);
    printf("FAIL %s\n", error->message);
    exit(1);
}

static void
fail_on_error(Soak *s)
{
    fail_on_error_of(s->pipeline);
    for (guint i = 0; i < s->n_streams; i++)
        fail_on_error_of(s->streams[i]);
}

static guint64
so_far(Soak *s)
{
    g_mutex_lock(&s->lock);
    const guint64 n = s->frames;
    g_mutex_unlock(&s->lock);
    return n;
}

static guint
samples(Soak *s)
{
    g_mutex_lock(&s->lock);
    const guint n = s->n;
    g_mutex_unlock(&s->lock);
    return n;
}

/* Waits until the given number of frames has arrived. Also looks for errors on
 * the bus, because no frame arrives after an error. */
static void
wait_frames(Soak *s, guint64 n)
{
    gboolean there = FALSE;
    while (!there) {
        const gint64 soon = g_get_monotonic_time() + G_TIME_SPAN_SECOND;
        gboolean in_time = TRUE;
        g_mutex_lock(&s->lock);
        while (s->frames < n && in_time)
            in_time = g_cond_wait_until(&s->more, &s->lock, soon);
        there = s->frames >= n;
        g_mutex_unlock(&s->lock);
        fail_on_error(s);
    }
}

static void
set_state(Soak *s, GstState state)
{
    if (gst_element_set_state(s->pipeline, state) == GST_STATE_CHANGE_FAILURE ||
        gst_element_get_state(s->pipeline, NULL, NULL, GST_CLOCK_TIME_NONE) ==
            GST_STATE_CHANGE_FAILURE) {
        fail_on_error(s);
        printf("FAIL a state cannot be reached\n");
        exit(1);
    }
    s->states++;
}

static void
flush(Soak *s)
{
    if (!gst_element_seek_simple(s->pipeline, GST_FORMAT_TIME,
                                 GST_SEEK_FLAG_FLUSH, 0)) {
        printf("FAIL a flush was refused\n");
        exit(1);
    }
    s->flushes++;
}

/* Another stream ends and a new one comes, or it replaces its model. The number
 * of streams stays the same, and so does their memory. */
static void
visit(Soak *s, GRand *rand)
{
    GstElement *stream =
        s->streams[g_rand_int_range(rand, 0, (gint32) s->n_streams)];
    const gint32 what = g_rand_int_range(rand, 0, 4);
    if (what < 2) {
        gst_element_set_state(stream, GST_STATE_NULL);
        gst_element_set_state(stream, GST_STATE_PLAYING);
    } else {
        g_autoptr(GstElement) d = gst_bin_get_by_name(GST_BIN(stream), "d");
        g_object_set(d, "model", s->models[what - 2], NULL);
        g_signal_emit_by_name(d, "restart");
    }
}

static void
disturb(Soak *s, GRand *rand)
{
    if (s->n_streams > 0)
        visit(s, rand);
    static const GstState states[] = {GST_STATE_PAUSED, GST_STATE_READY,
                                      GST_STATE_NULL};
    if (g_rand_boolean(rand)) {
        flush(s);
    } else {
        set_state(s, states[g_rand_int_range(rand, 0, 3)]);
        if (g_rand_int_range(rand, 0, 4) == 0) { /* even before it plays */
            set_state(s, GST_STATE_PAUSED);
            flush(s);
        }
        set_state(s, GST_STATE_PLAYING);
    }
}

/* ------------------------------------------------------------------ */

static gboolean
judge(gboolean good, const char *format, double a, double b)
{
    printf("%s ", good ? "ok  " : "FAIL");
    printf(format, a, b);
    printf("\n");
    return good;
}

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Sorts v and returns its median. */
static double
median(double *v, guint n)
{
    qsort(v, n, sizeof *v, compare);
    return v[n / 2];
}

/* Fits a line to v[from..n-1]. Returns its rise and the spread around it. */
static double
rise(const double *v, guint from, guint n, double *spread)
{
    double x = 0, y = 0, xx = 0, xy = 0, yy = 0;
    const double m = n - from;
    for (guint i = from; i < n; i++) {
        x += i;
        y += v[i];
    }
    x /= m;
    y /= m;
    for (guint i = from; i < n; i++) {
        xx += (i - x) * (i - x);
        xy += (i - x) * (v[i] - y);
        yy += (v[i] - y) * (v[i] - y);
    }
    const double slope = xy / xx;
    *spread = sqrt(MAX(yy - slope * xy, 0) / m);
    return slope * m;
}

/* Returns true if the bytes rise by no more than the noise. The first quarter
 * of the samples is ignored, because libraries fill their caches in it. */
static gboolean
level(const char *what, const double *v, guint n, double noise)
{
    double spread;
    const double grown = rise(v, n / 4, n, &spread);
    const double bound = MAX(noise, 2 * spread);
    gchar *format = g_strdup_printf("%s rises by %%.2f MiB, bound %%.2f", what);
    const gboolean good =
        judge(grown < bound, format, grown / 1048576, bound / 1048576);
    g_free(format);
    printf("     MiB:");
    for (guint i = 0; i < 8; i++)
        printf(" %.1f", v[(2 * i + 1) * n / 16] / 1048576);
    printf("\n");
    return good;
}

static int
report(Soak *s)
{
    gboolean good = TRUE;
    printf("%" G_GUINT64_FORMAT " frames, %u flushes, %u changes of state, %u "
           "runs looked at\n",
           s->frames, s->flushes, s->states, s->n);
    good &= judge(s->wrong == 0, "%.0f of %.0f frames are wrong",
                  (double) s->wrong, (double) s->frames);
    const double pipelines = 1 + (double) s->n_streams;
    good &=
        level("what the process has", s->pages, s->n, pipelines * NOISE_PAGES);
    good &= level("what malloc() gave", s->held, s->n, pipelines * NOISE_HELD);
    const guint quarter = s->n / 4;
    const double begin = median(s->cpu + quarter, quarter);
    const double end = median(s->cpu + s->n - quarter, quarter);
    /* Other processes slow this one down a little. A real growth of work at
     * least doubles the time. Other streams need time of their own. */
    good &=
        judge(s->n_streams || end < 2 * begin,
              "a frame costs %.3f ms, at the end %.3f", 1e3 * begin, 1e3 * end);
    const double first = median(s->behind + quarter, quarter);
    const double last = median(s->behind + s->n - quarter, quarter);
    /* The number of waiting frames depends on the speed of the threads. Frames
     * that are never freed add up. */
    good &= judge(last <= 2 * first + PERIOD,
                  "%.0f frames are on their way, at the end %.0f", first, last);
    const double few = median(s->threads + quarter, quarter);
    const double many = median(s->threads + s->n - quarter, quarter);
    good &= judge(many <= few + 4 + 2 * s->n_streams,
                  "%.0f threads, at the end %.0f", few, many);
    return good ? 0 : 1;
}

/* Makes the frames with which all runs are compared. */
static void
record_known(Soak *s)
{
    s->recording = TRUE;
    set_state(s, GST_STATE_PLAYING);
    wait_frames(s, KNOWN);
    set_state(s, GST_STATE_NULL);
    s->recording = FALSE;
    for (int k = 1; k <= PERIOD; k++)
        if (s->known[KNOWN - k] != s->known[KNOWN - k - PERIOD]) {
            printf("FAIL the frames do not repeat\n");
            exit(1);
        }
    s->frames = s->states = 0;
    s->cpu_before = cpu_seconds();
}

static void
watch(Soak *s, const char *element, const char *name, GstPadProbeType what,
      GstPadProbeCallback call)
{
    g_autoptr(GstElement) e =
        gst_bin_get_by_name(GST_BIN(s->pipeline), element);
    g_autoptr(GstPad) pad = gst_element_get_static_pad(e, name);
    gst_pad_add_probe(pad, what, call, s, NULL);
}

static Soak *
soak_new(const char *model)
{
    Soak *s = g_new0(Soak, 1);
    GError *error = NULL;
    gchar *text = g_strdup_printf(
        "videotestsrc name=source pattern=checkers-8 horizontal-speed=4 ! "
        "video/x-raw,format=RGB,width=64,height=48,framerate=%d/1 ! "
        "vaeencode model=\"%s\" ! vaedecode model=\"%s\" ! "
        "fakesink name=sink sync=false",
        FPS, model, model);
    s->pipeline = gst_parse_launch(text, &error);
    g_free(text);
    if (!s->pipeline || error) {
        printf("skipped: %s\n", error->message);
        exit(77);
    }
    watch(s, "source", "src", GST_PAD_PROBE_TYPE_BUFFER, on_source);
    watch(s, "sink", "sink",
          GST_PAD_PROBE_TYPE_BUFFER | GST_PAD_PROBE_TYPE_EVENT_DOWNSTREAM |
              GST_PAD_PROBE_TYPE_EVENT_FLUSH,
          on_data);
    return s;
}

/* Other streams, each at the speed of a camera. */
static void
add_streams(Soak *s, guint n, const char *model)
{
    g_autofree gchar *text = g_strdup_printf(
        "videotestsrc is-live=true ! "
        "video/x-raw,format=RGB,width=64,height=48,framerate=%d/1 ! "
        "vaeencode model=\"%s\" ! vaedecode name=d model=\"%s\" ! "
        "fakesink sync=false",
        FPS, model, model);
    s->models[0] = g_strdup(model);
    s->models[1] = g_strdup_printf("/.%s", model);
    for (s->n_streams = 0; s->n_streams < MIN(n, MAX_STREAMS); s->n_streams++) {
        s->streams[s->n_streams] = gst_parse_launch(text, NULL);
        gst_element_set_state(s->streams[s->n_streams], GST_STATE_PLAYING);
    }
}

static void
free_streams(Soak *s)
{
    for (guint i = 0; i < s->n_streams; i++) {
        gst_element_set_state(s->streams[i], GST_STATE_NULL);
        gst_object_unref(s->streams[i]);
    }
    g_free(s->models[0]);
    g_free(s->models[1]);
}

int
main(int argc, char **argv)
{
    /* Transparent huge pages would take memory that nobody allocated. */
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    gst_init(&argc, &argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4 && argc != 5) {
        fprintf(stderr, "usage: soak SECONDS SEED MODEL [STREAMS]\n");
        return 2;
    }
    GRand *rand = g_rand_new_with_seed((guint32) strtoul(argv[2], NULL, 10));
    Soak *s = soak_new(argv[3]);
    printf("%s seconds, seed %s\n", argv[1], argv[2]);
    record_known(s);
    if (argc == 5)
        add_streams(s, (guint) atoi(argv[4]), argv[3]);
    const gint64 end =
        g_get_monotonic_time() + atoi(argv[1]) * G_TIME_SPAN_SECOND;
    set_state(s, GST_STATE_PLAYING);
    while (g_get_monotonic_time() < end || samples(s) < MIN_SAMPLES) {
        /* Mostly soon, but sometimes only after the frames repeat. */
        const gint32 most = g_rand_int_range(rand, 0, 20) ? 60 : 2 * KNOWN;
        wait_frames(s, so_far(s) + (guint64) g_rand_int_range(rand, 1, most));
        disturb(s, rand);
    }
    wait_frames(s, so_far(s) + KNOWN);
    set_state(s, GST_STATE_NULL);
    const int result = report(s);
    free_streams(s);
    gst_object_unref(s->pipeline);
    g_rand_free(rand);
    g_free(s);
    return result;
}
