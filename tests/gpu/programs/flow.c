/*
 * flow.c: how a stream's uploads, computation and downloads overlap, what it
 * takes of the device's memory against its plan, what its programs are made of
 * and how long it takes to give its memory back, as JSON.
 *
 * flow MODEL decode|encode PRECISION WxH SLICES SLICE
 *   MODEL: a weights file or the name of a network, which gets generated
 *   weights. SLICES of SLICE steps are run after the first step; 0: of as many
 *   as fit.
 *
 * Linked with --wrap for the calls below, so that it sees when the backend
 * copies and waits, whatever is behind them: an event before and after each
 * copy of a picture or latent, and around each slice's computation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "layers.h"
#include "cuda_rt.h"
#include "graph.h"
#include "stream.h"

enum { SKIP = 77, MAX_SPANS = 4096, MAX_UNITS = 64 };
enum { UP, COMPUTE, DOWN, STREAMS };

int __real_vae_rt_stream_new(VaeRtStream *out);
int __real_vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event);
int __real_vae_rt_event_record(VaeRtEvent event, VaeRtStream stream);
int __real_vae_rt_copy(void *dst, const void *src, size_t bytes,
                       VaeRtStream stream);
int __real_vae_rt_alloc(void **out, size_t bytes);
int __real_vae_rt_alloc_host(void **out, size_t bytes);

int __wrap_vae_rt_stream_new(VaeRtStream *out);
int __wrap_vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event);
int __wrap_vae_rt_event_record(VaeRtEvent event, VaeRtStream stream);
int __wrap_vae_rt_copy(void *dst, const void *src, size_t bytes,
                       VaeRtStream stream);
int __wrap_vae_rt_alloc(void **out, size_t bytes);
int __wrap_vae_rt_alloc_host(void **out, size_t bytes);

typedef struct Span {
    int kind;
    VaeRtEvent from, to;
    double begin, end; /* ms since tracing began */
} Span;

static struct {
    VaeRtStream streams[STREAMS]; /* as the backend makes them */
    int n_streams;
    bool on, waited; /* waited: for the upload of the slice to come */
    Span spans[MAX_SPANS];
    int n, computing; /* computing: its span, or -1 */
    VaeRtEvent base;
    int allocs, allocs_host;
} trace = {.computing = -1};

static void
must(int code, const char *doing)
{
    if (!code)
        return;
    fprintf(stderr, "cannot %s: %s\n", doing, vae_rt_words(code));
    exit(1);
}

/* ------------------------------------------------------------------ */
/* The calls of the backend.                                           */

static int
span_begin(int kind)
{
    if (!trace.on || trace.n == MAX_SPANS)
        return -1;
    Span *s = &trace.spans[trace.n];
    s->kind = kind;
    must(__real_vae_rt_event_record(s->from, trace.streams[kind]),
         "take the time");
    return trace.n++;
}

static void
span_end(int i)
{
    if (i >= 0)
        must(__real_vae_rt_event_record(trace.spans[i].to,
                                        trace.streams[trace.spans[i].kind]),
             "take the time");
}

int
__wrap_vae_rt_stream_new(VaeRtStream *out)
{
    const int code = __real_vae_rt_stream_new(out);
    if (trace.n_streams < STREAMS)
        trace.streams[trace.n_streams++] = *out;
    return code;
}

int
__wrap_vae_rt_stream_wait(VaeRtStream stream, VaeRtEvent event)
{
    const int code = __real_vae_rt_stream_wait(stream, event);
    if (stream == trace.streams[COMPUTE])
        trace.waited = true;
    return code;
}

/* After the wait for the upload, the first event is recorded before the
 * slice's work and the second one behind it. */
int
__wrap_vae_rt_event_record(VaeRtEvent event, VaeRtStream stream)
{
    if (stream == trace.streams[COMPUTE]) {
        span_end(trace.computing);
        trace.computing = trace.waited ? span_begin(COMPUTE) : -1;
        trace.waited = false;
    }
    return __real_vae_rt_event_record(event, stream);
}

int
__wrap_vae_rt_copy(void *dst, const void *src, size_t bytes, VaeRtStream stream)
{
    const int kind = stream == trace.streams[UP]     ? UP
                     : stream == trace.streams[DOWN] ? DOWN
                                                     : -1;
    const int span = kind < 0 ? -1 : span_begin(kind);
    const int code = __real_vae_rt_copy(dst, src, bytes, stream);
    span_end(span);
    return code;
}

int
__wrap_vae_rt_alloc(void **out, size_t bytes)
{
    trace.allocs++;
    return __real_vae_rt_alloc(out, bytes);
}

int
__wrap_vae_rt_alloc_host(void **out, size_t bytes)
{
    trace.allocs_host++;
    return __real_vae_rt_alloc_host(out, bytes);
}

/* Before memory is looked at: so many events may take some of the device's. */
static void
trace_make(int spans)
{
    for (int i = 0; i < spans && i < MAX_SPANS; i++) {
        must(vae_rt_event_new(&trace.spans[i].from), "make an event");
        must(vae_rt_event_new(&trace.spans[i].to), "make an event");
    }
    must(vae_rt_event_new(&trace.base), "make an event");
}

static void
trace_begin(void)
{
    must(__real_vae_rt_event_record(trace.base, trace.streams[COMPUTE]),
         "take the time");
    must(vae_rt_event_sync(trace.base), "take the time");
    trace.on = true;
}

static void
trace_end(void)
{
    trace.on = false;
    for (int i = 0; i < trace.n; i++) {
        float from = 0, to = 0;
        Span *s = &trace.spans[i];
        must(vae_rt_event_span(trace.base, s->from, &from), "take the time");
        must(vae_rt_event_span(trace.base, s->to, &to), "take the time");
        s->begin = (double) from;
        s->end = (double) to;
    }
}

/* ------------------------------------------------------------------ */
/* The results.                                                        */

/* The part of [begin, end] in which something is computed. Slices are computed
 * one after another. */
static double
computed(double begin, double end)
{
    double sum = 0;
    for (int i = 0; i < trace.n; i++) {
        const Span *s = &trace.spans[i];
        const double from = s->begin > begin ? s->begin : begin;
        const double to = s->end < end ? s->end : end;
        if (s->kind == COMPUTE && to > from)
            sum += to - from;
    }
    return sum;
}

/* skip_first: what nothing can hide, the first upload; else the last
 * download. */
static void
tell_copies(const char *name, int kind, bool skip_first)
{
    double all = 0, hidden = 0, could = 0;
    int n = 0, last = -1, first = -1;
    for (int i = 0; i < trace.n; i++)
        if (trace.spans[i].kind == kind) {
            first = first < 0 ? i : first;
            last = i;
        }
    for (int i = 0; i < trace.n; i++) {
        const Span *s = &trace.spans[i];
        if (s->kind != kind)
            continue;
        const double beside = computed(s->begin, s->end);
        n++;
        all += s->end - s->begin;
        if (i != (skip_first ? first : last)) {
            could += s->end - s->begin;
            hidden += beside;
        }
    }
    printf(" \"%s\": {\"copies\": %d, \"ms\": %.4f, \"hidden\": %.4f},\n", name,
           n, all, could > 0 ? hidden / could : 1);
}

static void
tell_overlap(int frames)
{
    double begin = -1, end = 0, busy = 0;
    int n = 0;
    for (int i = 0; i < trace.n; i++) {
        const Span *s = &trace.spans[i];
        if (s->kind != COMPUTE)
            continue;
        n++;
        begin = begin < 0 || s->begin < begin ? s->begin : begin;
        end = s->end > end ? s->end : end;
        busy += s->end - s->begin;
    }
    const double span = end - begin;
    tell_copies("upload", UP, true);
    tell_copies("download", DOWN, false);
    printf(" \"compute\": {\"slices\": %d, \"ms\": %.4f, \"busy\": %.4f, "
           "\"fps\": %.3f},\n",
           n, busy, span > 0 ? busy / span : 1,
           span > 0 ? frames / span * 1e3 : 0);
    printf(" \"slice_ms\": [");
    for (int i = 0, k = 0; i < trace.n && k < 40; i++)
        if (trace.spans[i].kind == COMPUTE)
            printf("%s%.4f", k++ ? ", " : "",
                   trace.spans[i].end - trace.spans[i].begin);
    printf("],\n");
    static const char *const names[] = {"up", "compute", "down"};
    printf(" \"spans\": [");
    for (int i = 0; i < trace.n && i < 60; i++)
        printf("%s[\"%s\", %.4f, %.4f]", i ? ", " : "",
               names[trace.spans[i].kind], trace.spans[i].begin,
               trace.spans[i].end);
    printf("]}\n");
}

/* ------------------------------------------------------------------ */
/* Running.                                                            */

typedef struct Run {
    const char *name;
    VaeStreamParams params;
    int slices;
    VaeModel *model;
    VaeStream *stream;
    float *latent;
    uint8_t *picture;
} Run;

static void
check(VaeStatus status, const VaeError *error)
{
    if (status == VAE_OK)
        return;
    if (status == VAE_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", error->message);
        exit(SKIP);
    }
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

static double
seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

static uint64_t
memory_left(void)
{
    uint64_t bytes;
    must(vae_rt_memory_left(&bytes), "ask for its free memory");
    return bytes;
}

static bool
is_arch(const char *name)
{
    const char *const *archs = vae_model_archs();
    while (*archs && strcmp(*archs, name) != 0)
        archs++;
    return *archs;
}

static void
open_run(Run *r)
{
    VaeError error;
    if (is_arch(r->name))
        check(vae_model_generate(r->name, &r->model, &error), &error);
    else
        check(vae_model_open(r->name, NULL, &r->model, &error), &error);
}

static void
open_stream(Run *r)
{
    VaeError error;
    trace.n_streams = 0;
    check(vae_stream_new(r->model, &r->params, &r->stream, &error), &error);
    const VaePlan *plan = vae_stream_get_plan(r->stream);
    const VaeModelInfo *info = vae_model_info(r->model);
    const int64_t dims[] = {info->latent_channels,
                            plan->padded_height / info->spatial,
                            plan->padded_width / info->spatial};
    r->latent = malloc((size_t) (dims[0] * dims[1] * dims[2]) * sizeof(float));
    r->picture =
        calloc((size_t) r->params.width * (size_t) r->params.height, 3);
    if (!r->latent || !r->picture) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    vae_generate("latent", dims, 3, r->latent);
}

/* Begins a call and waits for the one before; returns its frames. */
static int
run_slice(const Run *r, int steps)
{
    VaeLatentIn latents[MAX_UNITS];
    VaeLatentOut results[MAX_UNITS];
    VaePicture pictures[MAX_UNITS];
    VaeError error;
    int n_in, n_out;
    vae_stream_count(r->stream, steps, &n_in, &n_out);
    if (n_in > MAX_UNITS || n_out > MAX_UNITS) {
        fprintf(stderr, "slices of %d and %d are too large here\n", n_in,
                n_out);
        exit(2);
    }
    for (int i = 0; i < MAX_UNITS; i++) {
        latents[i] = (VaeLatentIn){.type = VAE_TYPE_F32, .data = r->latent};
        results[i] = (VaeLatentOut){.type = VAE_TYPE_F32, .data = r->latent};
        pictures[i] = (VaePicture){.pixels = VAE_PIXELS_RGB,
                                   .width = r->params.width,
                                   .height = r->params.height,
                                   .data = {r->picture},
                                   .stride = {(ptrdiff_t) r->params.width * 3}};
    }
    if (r->params.direction == VAE_DECODE)
        check(vae_stream_decode_begin(r->stream, latents, n_in, pictures, n_out,
                                      &error),
              &error);
    else
        check(vae_stream_encode_begin(r->stream, pictures, n_in, results, n_out,
                                      &error),
              &error);
    check(vae_stream_wait(r->stream, 1, &error), &error);
    return r->params.direction == VAE_DECODE ? n_out : n_in;
}

static void
finish(const Run *r)
{
    VaeError error;
    check(vae_stream_wait(r->stream, 0, &error), &error);
}

static void
close_run(Run *r)
{
    vae_stream_free(&r->stream);
    vae_model_free(&r->model);
    free(r->latent);
    free(r->picture);
    r->latent = NULL;
    r->picture = NULL;
}

/* Memory that the driver and the library take for the first stream of a
 * process, such as the kernels of all ways that are timed, is not a stream's.
 */
static void
warm_up(const Run *wanted)
{
    Run r = *wanted;
    open_run(&r);
    open_stream(&r);
    for (int i = 0; i < 3; i++)
        run_slice(&r, i ? vae_stream_get_plan(r.stream)->slice_size : 1);
    finish(&r);
    close_run(&r);
}

/* Seconds that the bytes take from the device or to it. */
static double
copy_seconds(void *to, const void *from, size_t bytes)
{
    const double start = seconds();
    must(vae_rt_copy(to, from, bytes, trace.streams[DOWN]), "copy");
    must(vae_rt_stream_sync(trace.streams[DOWN]), "copy");
    return seconds() - start;
}

/* The time to free the device's memory and to allocate it again. Also the time
 * to copy weights and carries into host memory that was just allocated, and
 * back. */
static void
tell_release(const Run *r)
{
    const VaePlan *plan = vae_stream_get_plan(r->stream);
    const size_t bytes = (size_t) (plan->weights + plan->carries);
    void *device, *host = malloc(bytes + 1);
    VaeError error;
    must(vae_rt_alloc(&device, bytes + 1), "take memory");
    if (!host) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    const double out = copy_seconds(host, device, bytes);
    const double back = copy_seconds(device, host, bytes);
    vae_rt_free(device);
    free(host);
    double start = seconds();
    check(vae_stream_release(r->stream, &error), &error);
    const double release = seconds() - start;
    start = seconds();
    check(vae_stream_resume(r->stream, &error), &error);
    printf(" \"release\": {\"release_s\": %.4f, \"copies_out_s\": %.4f, "
           "\"resume_s\": %.4f, \"copies_back_s\": %.4f},\n",
           release, out, seconds() - start, back);
}

/* The log of the backend about its test at the start. */
static void
listen(void *user, const char *line)
{
    double *selftest_s = user;
    const char *took = strstr(line, " computes correctly in ");
    took = took ? strstr(took, ", in ") : NULL;
    if (took)
        *selftest_s = strtod(took + 5, NULL);
}

static void
run(Run *r)
{
    double selftest_s = -1; /* it is done once in a process */
    r->params.log = listen;
    r->params.log_user = &selftest_s;
    warm_up(r);
    trace_make(3 * r->slices + 8);
    const uint64_t before = memory_left();
    double start = seconds();
    open_run(r);
    const double model_s = seconds() - start;
    trace.allocs = trace.allocs_host = 0;
    start = seconds();
    open_stream(r);
    const double open_s = seconds() - start;
    start = seconds();
    run_slice(r, 1);
    finish(r);
    const double first_s = seconds() - start;
    const int allocs = trace.allocs, allocs_host = trace.allocs_host;
    const uint64_t first = memory_left(), host = vae_allocation_count();
    const VaePlan *plan = vae_stream_get_plan(r->stream);
    int frames = 0;
    trace_begin();
    start = seconds();
    for (int i = 0; i < r->slices; i++)
        frames += run_slice(r, plan->slice_size);
    finish(r);
    const double later_s = seconds() - start;
    const int later_host = (int) (vae_allocation_count() - host);
    const uint64_t end = memory_left();
    trace_end();
    printf(
        "{\"plan\": {\"weights\": %llu, \"carries\": %llu, \"arena\": %llu, "
        "\"scratch\": %llu, \"staging\": %llu, \"total\": %llu},\n",
        (unsigned long long) plan->weights, (unsigned long long) plan->carries,
        (unsigned long long) plan->arena, (unsigned long long) plan->scratch,
        (unsigned long long) plan->staging, (unsigned long long) plan->total);
    printf(" \"taken\": %lld, \"taken_later\": %lld, \"allocs\": %d, "
           "\"allocs_pinned\": %d, \"allocs_later\": %d, "
           "\"allocs_host_later\": %d,\n",
           (long long) (before - first), (long long) (first - end), allocs,
           allocs_host, trace.allocs + trace.allocs_host - allocs - allocs_host,
           later_host);
    printf(" \"model_s\": %.4f, \"open_s\": %.4f, \"first_s\": %.4f, "
           "\"later_s\": %.4f, \"frames\": %d, \"slice\": %d,\n"
           " \"selftest_s\": %.4f,\n",
           model_s, open_s, first_s, later_s, frames, plan->slice_size,
           selftest_s);
    printf(" \"programs\": ");
    graph_tell_programs(r->stream);
    printf(",\n");
    tell_release(r);
    tell_overlap(frames);
    close_run(r);
}

int
main(int argc, char **argv)
{
    Run r = {.params = {.struct_size = sizeof(VaeStreamParams),
                        .backend = VAE_BACKEND_CUDA,
                        .pixels = VAE_PIXELS_RGB,
                        .device = 0}};
    char why[256];
    if (argc != 7 ||
        (strcmp(argv[2], "decode") != 0 && strcmp(argv[2], "encode") != 0) ||
        !vae_precision_parse(argv[3], &r.params.precision) ||
        sscanf(argv[4], "%dx%d", &r.params.width, &r.params.height) != 2 ||
        (r.slices = atoi(argv[5])) < 1 ||
        (r.params.slice_size = atoi(argv[6])) < 0) {
        fprintf(stderr, "usage: flow MODEL decode|encode PRECISION WxH SLICES "
                        "SLICE\n");
        return 2;
    }
    if (!vae_backend_available(VAE_BACKEND_CUDA, why, sizeof why)) {
        printf("skipped: %s\n", why);
        return SKIP;
    }
    r.name = argv[1];
    r.params.direction = strcmp(argv[2], "decode") ? VAE_ENCODE : VAE_DECODE;
    run(&r);
    return 0;
}
