/*
 * device.c: see device.h.
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>

#include "gpu.h"

enum { SKIP = 77, MAX_RUNS = 64, TOGETHER = 10 };

void
device_must(int code, const char *doing)
{
    if (!code)
        return;
    fprintf(stderr, "cannot %s: %s\n", doing, vae_rt_words(code));
    exit(1);
}

void
device_status(VaeStatus status, const VaeError *error)
{
    if (status == VAE_OK)
        return;
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

void
device_open(Device *d)
{
    int n = 0;
    VaeError error;
    const int code = vae_rt_devices(&n);
    *d = (Device){0};
    if (code || n == 0) {
        printf("skipped: %s\n",
               code ? vae_rt_words(code) : "there is no NVIDIA GPU");
        exit(SKIP);
    }
    device_must(vae_rt_enter(0, &(VaeRtCaller){0}), "use the device");
    device_must(vae_rt_device(0, &d->info), "ask the device");
    device_must(vae_rt_stream_new(&d->stream), "make a stream");
    device_status(vae_cuda_convs_check(&error), &error);
    pthread_mutex_lock(&vae_cuda_recording);
    device_status(vae_cuda_convs_new(NULL, &d->convs, &error), &error);
    pthread_mutex_unlock(&vae_cuda_recording);
    vae_cuda_convs_use(d->convs, vae_rt_kernels(), d->info.capability);
}

void
device_close(Device *d)
{
    pthread_mutex_lock(&vae_cuda_recording);
    vae_cuda_convs_free(&d->convs);
    pthread_mutex_unlock(&vae_cuda_recording);
    vae_rt_stream_free(d->stream);
}

/* ------------------------------------------------------------------ */

static void *
room(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

void *
device_bytes(Device *d, size_t bytes)
{
    void *p;
    device_must(vae_rt_alloc(&p, bytes ? bytes : 1), "take memory");
    return p;
}

/* The first elements are made on the host, the others are copies of them. */
void *
device_numbers(Device *d, VaeType type, size_t n, uint32_t seed, float **host)
{
    const size_t size = vae_type_size(type);
    const size_t first = host || n < DEVICE_PERIOD ? n : DEVICE_PERIOD;
    float *wide = room(first * sizeof *wide);
    uint8_t *narrow = room(first * size);
    uint8_t *p = device_bytes(d, n * size);
    uint32_t state = seed * 2654435761u + 12345;
    for (size_t i = 0; i < first; i++) {
        state = state * 1664525u + 1013904223u;
        wide[i] = (float) (int32_t) state / 2147483648.0f;
    }
    vae_type_from_float(narrow, type, wide, first);
    device_must(vae_rt_copy(p, narrow, first * size, d->stream), "copy");
    device_must(vae_rt_stream_sync(d->stream), "copy");
    for (size_t at = first; at < n;) {
        const size_t more = n - at < at ? n - at : at;
        device_must(vae_rt_copy(p + at * size, p, more * size, d->stream),
                    "copy");
        at += more;
    }
    device_must(vae_rt_stream_sync(d->stream), "copy");
    vae_type_to_float(wide, narrow, type, first);
    free(narrow);
    if (host)
        *host = wide;
    else
        free(wide);
    return p;
}

float *
device_floats(Device *d, const void *p, VaeType type, size_t n)
{
    void *narrow = room(n * vae_type_size(type));
    float *wide = room(n * sizeof *wide);
    device_must(vae_rt_copy(narrow, p, n * vae_type_size(type), d->stream),
                "copy");
    device_must(vae_rt_stream_sync(d->stream), "copy");
    vae_type_to_float(wide, narrow, type, n);
    free(narrow);
    return wide;
}

/* ------------------------------------------------------------------ */

static int
by_size(const void *a, const void *b)
{
    const float x = *(const float *) a, y = *(const float *) b;
    return (x > y) - (x < y);
}

/* Milliseconds of one of so many runs without a pause. */
static float
mean_time(Device *d, DeviceRun run, void *what, int runs,
          const VaeRtEvent events[2])
{
    float ms = 0;
    device_must(vae_rt_event_record(events[0], d->stream), "take the time");
    for (int i = 0; i < runs; i++)
        run(d, what);
    device_must(vae_rt_event_record(events[1], d->stream), "take the time");
    device_must(vae_rt_failure(), "launch");
    device_must(vae_rt_event_sync(events[1]), "run");
    device_must(vae_rt_event_span(events[0], events[1], &ms), "take the time");
    return ms / (float) runs;
}

/* A short kernel runs several times between two events, as the first launch
 * on an idle device is timed with the wait for it. */
float
device_time(Device *d, DeviceRun run, void *what, int runs)
{
    float times[MAX_RUNS] = {0};
    VaeRtEvent events[2];
    runs = runs < MAX_RUNS ? runs : MAX_RUNS;
    device_must(vae_rt_event_new(&events[0]), "make an event");
    device_must(vae_rt_event_new(&events[1]), "make an event");
    run(d, what);
    const bool is_short = mean_time(d, run, what, 1, events) < 2;
    for (int i = 0; i < runs; i++)
        times[i] = mean_time(d, run, what, is_short ? TOGETHER : 1, events);
    vae_rt_event_free(events[0]);
    vae_rt_event_free(events[1]);
    qsort(times, (size_t) runs, sizeof *times, by_size);
    return times[runs / 2];
}

/* ------------------------------------------------------------------ */

void
device_conv_open(Device *d, DeviceConv *c, bool on_host)
{
    const VaeCudaConvShape *s = &c->shape;
    const size_t t_in = (size_t) (s->t - 1) * s->st + s->kt;
    c->n_x = t_in * s->h * s->w * s->c_in;
    c->n_y = (size_t) s->t * s->ho * s->wo * s->c_out;
    c->n_weight = (size_t) s->kt * s->k * s->k * s->c_in * s->c_out;
    c->x = device_numbers(d, s->x_type, c->n_x, 1, on_host ? &c->x_host : NULL);
    c->weight = device_numbers(d, s->x_type, c->n_weight, 2,
                               on_host ? &c->weight_host : NULL);
    c->bias = device_numbers(d, s->y_type, (size_t) s->c_out, 3,
                             on_host ? &c->bias_host : NULL);
    if (s->add)
        c->add = device_numbers(d, s->y_type, c->n_y, 4,
                                on_host ? &c->add_host : NULL);
    c->y = device_bytes(d, c->n_y * vae_type_size(s->y_type));
}

bool
device_conv_make(Device *d, DeviceConv *c, const VaeCudaChoice *choice)
{
    VaeError error;
    vae_cuda_conv_free(&c->conv);
    vae_rt_free(c->workspace);
    c->workspace = NULL;
    if (vae_cuda_conv_new(d->convs, &c->shape, choice, &c->conv, &error) !=
        VAE_OK)
        return false;
    c->workspace = device_bytes(d, vae_cuda_conv_workspace(c->conv));
    const VaeCudaConvArgs args = {.y = c->y,
                                  .x = c->x,
                                  .add = c->in_place ? c->y : c->add,
                                  .weight = c->weight,
                                  .bias = c->bias,
                                  .workspace = c->workspace};
    if (vae_cuda_conv_bind(c->conv, &args, &error) != VAE_OK)
        return false;
    /* A choice that the library offers and makes may still refuse to run. */
    if (vae_cuda_conv_run(c->conv, d->stream, &error) == VAE_OK)
        return true;
    vae_rt_failure(); /* forgotten */
    fprintf(stderr, "choice %s: %s\n", choice->text, error.message);
    return false;
}

void
device_conv_run(Device *d, void *conv)
{
    VaeError error;
    DeviceConv *c = conv;
    device_status(vae_cuda_conv_run(c->conv, d->stream, &error), &error);
}

void
device_conv_close(DeviceConv *c)
{
    vae_cuda_conv_free(&c->conv);
    vae_rt_free(c->x);
    vae_rt_free(c->y);
    vae_rt_free(c->add);
    vae_rt_free(c->weight);
    vae_rt_free(c->bias);
    vae_rt_free(c->workspace);
    free(c->x_host);
    free(c->add_host);
    free(c->weight_host);
    free(c->bias_host);
    *c = (DeviceConv){0};
}
