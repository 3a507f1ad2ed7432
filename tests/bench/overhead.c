/*
 * overhead.c: measures the time of the elements against the engine alone.
 *
 *   overhead MODEL [WIDTHxHEIGHT [STEPS [ROUNDS [THREADS]]]]
 *
 * A direction without weights in the file is skipped. In each round the same
 * clip goes through the library (vae_stream_decode() and vae_stream_encode(),
 * slices of 4) and then through the element and a fakesink. It prints a line
 * for each round, and the medians of the quotients of elapsed time and of
 * processor time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gst/gst.h>
#include <gst/video/video.h>
#include "vae-private/stream.h"

#include "median.h"

enum { SLICE = 4, MAX_ROUNDS = 99 };

typedef struct Bench {
    gboolean encodes;
    const char *path;
    int width, height, steps, threads;
    VaeModel *model;
    const VaeModelInfo *info;
    int n_in, n_out; /* units of the clip */

    GstBuffer **in;
    VaeStream *stream;
    VaeLatentIn *latents;
    VaeLatentOut *results;
    VaePicture *pictures;

    GstElement *pipeline;
    GstPad *pad; /* what the clip is pushed into */
    GMutex lock;
    GCond cond;
    int left; /* under the lock: buffers that the sink waits for */
} Bench;

typedef struct Seconds {
    double wall, cpu;
} Seconds;

static void
fail(const char *what)
{
    fprintf(stderr, "overhead: %s\n", what);
    exit(1);
}

static double
seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static Seconds
now(void)
{
    return (Seconds){seconds(CLOCK_MONOTONIC),
                     seconds(CLOCK_PROCESS_CPUTIME_ID)};
}

static Seconds
since(Seconds start)
{
    const Seconds end = now();
    return (Seconds){end.wall - start.wall, end.cpu - start.cpu};
}

static GstVideoInfo
video_info(const Bench *b)
{
    GstVideoInfo info;
    gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, (guint) b->width,
                              (guint) b->height);
    info.fps_n = 16;
    return info;
}

/* The clip, in buffers that both the library and the element read. */
static void
make_clip(Bench *b)
{
    const GstVideoInfo video = video_info(b);
    const int w = (b->width + b->info->spatial - 1) / b->info->spatial;
    const int h = (b->height + b->info->spatial - 1) / b->info->spatial;
    const gsize n = (gsize) b->info->latent_channels * w * h;
    b->in = g_new0(GstBuffer *, b->n_in);
    for (int k = 0; k < b->n_in; k++) {
        const gsize size = b->encodes ? video.size : 4 * n;
        guint8 *data = g_malloc(size);
        for (gsize i = 0; b->encodes && i < size; i++)
            data[i] = (guint8) (i + 7 * k + (i >> 6) * 3);
        for (gsize i = 0; !b->encodes && i < n; i++)
            ((float *) data)[i] = sinf(0.37f * (float) i + 1.7f * (float) k);
        b->in[k] = gst_buffer_new_wrapped(data, size);
        if (!b->encodes && k > 0)
            GST_BUFFER_FLAG_SET(b->in[k], GST_BUFFER_FLAG_DELTA_UNIT);
    }
}

static void
set_picture(const Bench *b, VaePicture *p, guint8 *data)
{
    const GstVideoInfo video = video_info(b);
    *p = (VaePicture){
        .pixels = VAE_PIXELS_I420, .width = b->width, .height = b->height};
    for (int i = 0; i < 3; i++) {
        p->data[i] = data + video.offset[i];
        p->stride[i] = video.stride[i];
    }
}

static guint8 *
bytes(GstBuffer *buffer)
{
    GstMapInfo map;
    guint8 *data;
    if (!gst_buffer_map(buffer, &map, GST_MAP_READ))
        fail("a buffer cannot be mapped");
    data = map.data;
    gst_buffer_unmap(buffer, &map); /* plain memory stays where it is */
    return data;
}

static void
open_engine(Bench *b)
{
    const GstVideoInfo video = video_info(b);
    const int latents = b->encodes ? b->n_out : b->n_in;
    const int frames = b->encodes ? b->n_in : b->n_out;
    VaeError error = {0};
    if (vae_stream_new(b->model,
                       &(VaeStreamParams){
                           .struct_size = sizeof(VaeStreamParams),
                           .direction = b->encodes ? VAE_ENCODE : VAE_DECODE,
                           .backend = VAE_BACKEND_CPU,
                           .width = b->width,
                           .height = b->height,
                           .slice_size = SLICE,
                           .threads = b->threads},
                       &b->stream, &error) != VAE_OK)
        fail(error.message);
    b->latents = g_new0(VaeLatentIn, latents);
    b->results = g_new0(VaeLatentOut, latents);
    b->pictures = g_new0(VaePicture, frames);
    for (int i = 0; i < latents; i++)
        if (b->encodes)
            b->results[i].data =
                g_malloc(4 * (gsize) b->info->latent_channels *
                         (gsize) b->width * (gsize) b->height / 16);
        else
            b->latents[i].data = bytes(b->in[i]);
    for (int i = 0; i < frames; i++)
        set_picture(b, &b->pictures[i],
                    b->encodes ? bytes(b->in[i]) : g_malloc(video.size));
}

/* The first step alone, then whole slices, as the element does. */
static Seconds
run_engine(Bench *b)
{
    const Seconds start = now();
    VaeError error = {0};
    int latent = 0, frame = 0;
    vae_stream_reset(b->stream);
    for (int done = 0; done < b->steps;) {
        const int n = done == 0 ? 1 : MIN(SLICE, b->steps - done);
        int in, out;
        VaeStatus status;
        vae_stream_count(b->stream, n, &in, &out);
        status = b->encodes
                     ? vae_stream_encode(b->stream, b->pictures + frame, in,
                                         b->results + latent, out, &error)
                     : vae_stream_decode(b->stream, b->latents + latent, in,
                                         b->pictures + frame, out, &error);
        if (status != VAE_OK)
            fail(error.message);
        latent += b->encodes ? out : in;
        frame += b->encodes ? in : out;
        done += n;
    }
    return since(start);
}

static GstPadProbeReturn
count(GstPad *pad, GstPadProbeInfo *info, gpointer data)
{
    Bench *b = data;
    g_mutex_lock(&b->lock);
    b->left--;
    g_cond_signal(&b->cond);
    g_mutex_unlock(&b->lock);
    return GST_PAD_PROBE_OK;
}

static void
open_element(Bench *b)
{
    GstElement *element =
        gst_element_factory_make(b->encodes ? "vaeencode" : "vaedecode", NULL);
    GstElement *sink = gst_element_factory_make("fakesink", NULL);
    GstCaps *caps;
    GstPad *pad;
    char *text;
    if (!element || !sink)
        fail("the plugin is not in GST_PLUGIN_PATH");
    g_object_set(element, "model", b->path, "slice-size", SLICE, "threads",
                 b->threads, NULL);
    gst_util_set_object_arg(G_OBJECT(element), "backend", "cpu");
    g_object_set(sink, "sync", FALSE, "async", FALSE, NULL);
    b->pipeline = gst_pipeline_new(NULL);
    gst_bin_add_many(GST_BIN(b->pipeline), element, sink, NULL);
    gst_element_link(element, sink);
    pad = gst_element_get_static_pad(sink, "sink");
    gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, count, b, NULL);
    gst_object_unref(pad);
    b->pad = gst_pad_new("src", GST_PAD_SRC);
    pad = gst_element_get_static_pad(element, "sink");
    gst_pad_link(b->pad, pad);
    gst_object_unref(pad);
    gst_pad_set_active(b->pad, TRUE);
    gst_element_set_state(b->pipeline, GST_STATE_PLAYING);
    text = g_strdup_printf(
        b->encodes ? "video/x-raw,format=I420,width=%d,height=%d,framerate=16/1"
                   : "video/x-vae-latent,type=float32,channels=%d,"
                     "latent-width=%d,latent-height=%d,framerate=16/1",
        b->encodes ? b->width : b->info->latent_channels,
        b->encodes ? b->height : b->width / b->info->spatial,
        b->height / b->info->spatial);
    caps = gst_caps_from_string(text);
    gst_pad_push_event(b->pad, gst_event_new_stream_start("bench"));
    gst_pad_push_event(b->pad, gst_event_new_caps(caps));
    gst_caps_unref(caps);
    g_free(text);
}

static Seconds
run_element(Bench *b)
{
    GstSegment segment;
    Seconds start;
    gst_pad_push_event(b->pad, gst_event_new_flush_start());
    gst_pad_push_event(b->pad, gst_event_new_flush_stop(TRUE));
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_pad_push_event(b->pad, gst_event_new_segment(&segment));
    b->left = b->n_out;
    start = now();
    for (int i = 0; i < b->n_in; i++)
        if (gst_pad_push(b->pad, gst_buffer_ref(b->in[i])) != GST_FLOW_OK)
            fail("the element takes no buffer");
    g_mutex_lock(&b->lock);
    while (b->left > 0)
        g_cond_wait(&b->cond, &b->lock);
    g_mutex_unlock(&b->lock);
    return since(start);
}

static void
measure(Bench *b, int rounds)
{
    const char *name = b->encodes ? "encode" : "decode";
    double wall[MAX_ROUNDS] = {0}, cpu[MAX_ROUNDS] = {0};
    make_clip(b);
    open_engine(b);
    open_element(b);
    run_engine(b);
    run_element(b);
    for (int i = 0; i < rounds; i++) {
        /* The library and the element take turns to be first. */
        Seconds e = i % 2 ? run_element(b) : (Seconds){0};
        const Seconds v = run_engine(b);
        if (i % 2 == 0)
            e = run_element(b);
        wall[i] = e.wall / v.wall;
        cpu[i] = e.cpu / v.cpu;
        printf("%s,%d,%.4f,%.4f,%.4f,%.4f\n", name, i, v.wall, e.wall, v.cpu,
               e.cpu);
    }
    printf("%s: element / engine: %.4f on the clock, %.4f of the processor "
           "(medians of %d)\n",
           name, median(wall, (size_t) rounds), median(cpu, (size_t) rounds),
           rounds);
    gst_element_set_state(b->pipeline, GST_STATE_NULL);
}

int
main(int argc, char **argv)
{
    int width = 416, height = 240, steps, rounds, threads;
    VaeError error = {0};
    if (argc < 2 ||
        (argc > 2 && sscanf(argv[2], "%dx%d", &width, &height) != 2))
        fail("MODEL [WIDTHxHEIGHT [STEPS [ROUNDS [THREADS]]]]");
    steps = argc > 3 ? atoi(argv[3]) : 9;
    rounds = argc > 4 ? CLAMP(atoi(argv[4]), 1, MAX_ROUNDS) : 9;
    threads = argc > 5 ? atoi(argv[5]) : 0;
    gst_init(NULL, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("direction,round,engine_s,element_s,engine_cpu_s,element_cpu_s\n");
    for (int encodes = 0; encodes < 2; encodes++) {
        Bench b = {.encodes = encodes,
                   .path = argv[1],
                   .width = width,
                   .height = height,
                   .steps = steps,
                   .threads = threads};
        const VaeSteps *s;
        if (vae_model_open(argv[1], NULL, &b.model, &error) != VAE_OK)
            fail(error.message);
        b.info = vae_model_info(b.model);
        if (encodes ? !b.info->has_encoder : !b.info->has_decoder) {
            vae_model_free(&b.model);
            continue;
        }
        s = encodes ? &b.info->encode : &b.info->decode;
        b.n_in = s->first_in + (steps - 1) * s->step_in;
        b.n_out = s->first_out + (steps - 1) * s->step_out;
        g_mutex_init(&b.lock);
        g_cond_init(&b.cond);
        measure(&b, rounds);
        g_cond_clear(&b.cond);
        g_mutex_clear(&b.lock);
        vae_model_free(&b.model);
    }
    return 0;
}
