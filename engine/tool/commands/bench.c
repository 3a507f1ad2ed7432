/*
 * bench.c: measures the time of one direction and of each op.
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

typedef struct Bench {
    const Options *o;
    const VaeModelInfo *info;
    VaeModel *model;
    VaeStream *stream;
    const VaePlan *plan;
    int64_t steps, first_frames, later_frames;
    double first, later; /* seconds */
    /* One latent and one picture serve for all. */
    float *latent, *result;
    uint8_t *picture;
} Bench;

static VaeStatus
open_stream(Bench *b, VaeError *error)
{
    const Options *o = b->o;
    const VaeDirection direction = o->encode ? VAE_ENCODE : VAE_DECODE;
    const VaeStreamParams params =
        stream_params(o, direction, o->width, o->height);
    VaeStatus status = open_model(o, &b->model, error);
    if (status != VAE_OK)
        return status;
    b->info = vae_model_info(b->model);
    b->steps = vae_model_latents_of(b->model, o->frames);
    status = vae_stream_new(b->model, &params, &b->stream, error);
    if (status != VAE_OK)
        return status;
    b->plan = vae_stream_get_plan(b->stream);
    return VAE_OK;
}

static VaeStatus
make_buffers(Bench *b, VaeError *error)
{
    const int64_t dims[] = {b->info->latent_channels,
                            b->plan->padded_height / b->info->spatial,
                            b->plan->padded_width / b->info->spatial};
    const size_t n = (size_t) (dims[0] * dims[1] * dims[2]);
    const size_t size = (size_t) b->o->width * (size_t) b->o->height * 3;
    b->latent = malloc(n * sizeof(float));
    b->result = malloc(n * sizeof(float));
    b->picture = malloc(size);
    if (!b->latent || !b->result || !b->picture)
        return vae_fail(error, VAE_ERR_MEMORY, "no memory for the input");
    vae_generate("latent", dims, 3, b->latent);
    for (size_t i = 0; i < size; i++)
        b->picture[i] = (uint8_t) (i * 2654435761u >> 13);
    return VAE_OK;
}

/* n pictures in the same memory, or NULL. */
static VaePicture *
make_pictures(const Bench *b, int n)
{
    VaePicture *pictures = calloc((size_t) n + 1, sizeof *pictures);
    for (int i = 0; pictures && i < n; i++)
        pictures[i] = (VaePicture){
            .pixels = VAE_PIXELS_RGB,
            .width = b->o->width,
            .height = b->o->height,
            .data = {b->picture},
            .stride = {(ptrdiff_t) b->o->width * 3},
        };
    return pictures;
}

/* n latents in the same memory, or NULL. */
static VaeLatentOut *
make_results(const Bench *b, int n)
{
    VaeLatentOut *results = calloc((size_t) n + 1, sizeof *results);
    for (int i = 0; results && i < n; i++)
        results[i] = (VaeLatentOut){.data = b->result};
    return results;
}

/* Begins a call of `steps` steps, all on the same latent or picture, and waits
 * for the previous call. */
static VaeStatus
run_slice(Bench *b, int steps, int *n_frames, VaeError *error)
{
    int n_in, n_out;
    VaeStatus status;
    vae_stream_count(b->stream, steps, &n_in, &n_out);
    const int frames = b->o->encode ? n_in : n_out;
    const int n_latents = b->o->encode ? n_out : n_in;
    VaePicture *pictures = make_pictures(b, frames);
    VaeLatentIn *latents = calloc((size_t) n_latents, sizeof *latents);
    VaeLatentOut *results = make_results(b, n_latents);
    if (!pictures || !latents || !results) {
        status = vae_fail(error, VAE_ERR_MEMORY, "no memory for a slice");
        goto done;
    }
    for (int i = 0; i < n_latents; i++)
        latents[i] = (VaeLatentIn){.data = b->latent};
    if (b->o->encode)
        status = vae_stream_encode_begin(b->stream, pictures, frames, results,
                                         n_latents, error);
    else
        status = vae_stream_decode_begin(b->stream, latents, n_latents,
                                         pictures, frames, error);
    if (status == VAE_OK)
        status = vae_stream_wait(b->stream, 1, error);
    *n_frames = frames;
done:
    free(pictures);
    free(latents);
    free(results);
    return status;
}

/* The end of a stream with a delay: the steps left, up to a slice. */
static VaeStatus
drain_slice(Bench *b, int steps, VaeError *error)
{
    int n;
    vae_stream_drain_count(b->stream, steps, &n);
    VaePicture *pictures = make_pictures(b, n);
    VaeLatentOut *results = make_results(b, n);
    VaeStatus status;
    if (!pictures || !results)
        status = vae_fail(error, VAE_ERR_MEMORY, "no memory for the end");
    else if (b->o->encode)
        status = vae_stream_drain_latents(b->stream, steps, results, n, error);
    else
        status = vae_stream_drain(b->stream, steps, pictures, n, error);
    if (!b->o->encode)
        b->later_frames += n;
    free(pictures);
    free(results);
    return status;
}

static VaeStatus
drain(Bench *b, VaeError *error)
{
    const int slice = b->plan->slice_size;
    VaeStatus status = VAE_OK;
    int left;
    while (status == VAE_OK &&
           (left = vae_stream_drain_count(b->stream, 0, NULL)) > 0) {
        status = drain_slice(b, left < slice ? left : slice, error);
        if (status == VAE_OK && interrupted())
            status = vae_fail(error, VAE_ERR_CANCELLED, "interrupted");
    }
    return status;
}

static VaeStatus
run(Bench *b, VaeError *error)
{
    Progress progress;
    int frames;
    double start = now_seconds();
    progress_begin(&progress, "steps", b->steps);
    VaeStatus status = run_slice(b, 1, &frames, error);
    if (status == VAE_OK)
        status = vae_stream_wait(b->stream, 0, error);
    if (status != VAE_OK)
        return status;
    b->first = now_seconds() - start;
    b->first_frames = frames;
    progress_expect(b->plan, b->first, b->steps - 1);
    for (int64_t done = 1; done < b->steps && status == VAE_OK;) {
        const int64_t left = b->steps - done;
        const int slice = b->plan->slice_size;
        const int steps = left < slice ? (int) left : slice;
        start = now_seconds();
        status = run_slice(b, steps, &frames, error);
        if (status == VAE_OK && interrupted())
            status = vae_fail(error, VAE_ERR_CANCELLED, "interrupted");
        b->later += now_seconds() - start;
        b->later_frames += frames;
        done += steps;
        progress_show(&progress, done);
    }
    start = now_seconds();
    if (status == VAE_OK)
        status = vae_stream_wait(b->stream, 0, error);
    if (status == VAE_OK)
        status = drain(b, error);
    b->later += now_seconds() - start;
    progress_end(&progress);
    return status;
}

static void
print_csv(const Bench *b, const char *direction, double rate)
{
    printf("arch,direction,backend,precision,threads,slice,width,height,"
           "first_frames,first_s,later_frames,later_s,later_fps,"
           "later_gflops\n");
    printf("%s,%s,%s,%s,%d,%d,%d,%d,%lld,%.9f,%lld,%.9f,%.6g,%.6g\n",
           b->info->arch, direction, vae_backend_name(b->plan->backend),
           vae_precision_name(b->plan->precision), b->plan->threads,
           b->plan->slice_size, b->o->width, b->o->height,
           (long long) b->first_frames, b->first, (long long) b->later_frames,
           b->later, b->later > 0 ? (double) b->later_frames / b->later : 0,
           rate);
}

static void
print_later(const Bench *b, double seconds, double flop)
{
    /* Steps that do not fill a slice. */
    const int64_t alone = (b->steps - 1) % b->plan->slice_size;
    printf("later: %s in %.3f s, %.3f frames/s, %.1f GFLOP/s",
           VAE_COUNTED(b->later_frames, "frame"), b->later,
           (double) b->later_frames / seconds, flop / seconds * 1e-9);
    if (alone > 0)
        printf("; %s one by one", VAE_COUNTED(alone, "step"));
    printf("\n");
}

/* The first and the last steps of a decoder with a delay compute only some of
 * its layers. */
static void
print_late(const Bench *b, double flop)
{
    const double seconds = b->first + b->later;
    const int64_t frames = b->first_frames + b->later_frames;
    printf("clip: %s of %s in %.3f s, to the end, %.3f "
           "frames/s, %.1f GFLOP/s\n",
           VAE_COUNTED(frames, "frame"), VAE_COUNTED(b->steps, "latent"),
           seconds, (double) frames / seconds, flop / seconds * 1e-9);
}

static void
print_result(const Bench *b)
{
    const bool late = !b->o->encode && b->plan->delay > 0;
    const int64_t whole = late ? b->steps : b->steps - 1;
    const double flop = b->plan->flop_step * (double) whole;
    const double later = b->later > 0 ? b->later : 1;
    if (b->o->csv) {
        print_csv(b, b->o->encode ? "encode" : "decode", flop / later * 1e-9);
        return;
    }
    plan_print(stdout, b->o->encode ? VAE_ENCODE : VAE_DECODE, b->plan);
    if (late) {
        print_late(b, flop);
        return;
    }
    printf("first step: %s in %.3f s, %.1f GFLOP/s\n",
           VAE_COUNTED(b->first_frames, "frame"), b->first,
           b->plan->flop_first / b->first * 1e-9);
    if (b->later_frames > 0)
        print_later(b, later, flop);
}

static void
print_row(const Bench *b, const VaeProfileRow *r, uint64_t total)
{
    const double s = (double) r->ns * 1e-9, calls = (double) r->calls;
    const double rate = s > 0 ? calls / s : 0;
    const double share = total ? 100.0 * (double) r->ns / (double) total : 0;
    if (b->o->csv)
        printf("%s,%s,%s,%s,%llu,%.9f,%.6g,%.6g,%.2f,%.0f,%.0f\n", r->program,
               r->op, r->name, r->impl, (unsigned long long) r->calls, s,
               r->flop * rate * 1e-9, r->bytes * rate * 1e-9, share, r->flop,
               r->bytes);
    else
        printf("%-6s %-12s %-44s %-24s %6llu %10.3f %9.3f %9.2f %9.2f %8.2f "
               "%6.2f\n",
               r->program, r->op, r->name, r->impl,
               (unsigned long long) r->calls, s * 1e3, r->flop * calls * 1e-9,
               r->bytes * calls * 1e-6, r->flop * rate * 1e-9,
               r->bytes * rate * 1e-9, share);
}

static void
print_profile(const Bench *b)
{
    VaeProfileRow row;
    uint64_t total = 0;
    for (size_t i = 0; vae_stream_profile_row(b->stream, i, &row); i++)
        total += row.ns;
    if (b->o->csv)
        printf("\nprogram,op,name,impl,calls,seconds,gflops,gbytes_s,"
               "percent,flop,bytes\n");
    else
        printf("%-6s %-12s %-44s %-24s %6s %10s %9s %9s %9s %8s %6s\n", "run",
               "op", "name", "implementation", "calls", "ms", "GFLOP", "MB",
               "GFLOP/s", "GB/s", "share%");
    for (size_t i = 0; vae_stream_profile_row(b->stream, i, &row); i++) {
        if (row.calls > 0)
            print_row(b, &row, total);
    }
}

int
command_bench(const Options *o)
{
    Bench b = {.o = o};
    VaeError error;
    VaeStatus status = open_stream(&b, &error);
    if (status == VAE_OK)
        status = make_buffers(&b, &error);
    if (status == VAE_OK && !interrupt_arm(&b.stream, 1, &error))
        status = error.status;
    else if (status == VAE_OK) {
        vae_stream_profile(b.stream, o->profile);
        status = run(&b, &error);
        interrupt_disarm();
    }
    if (status == VAE_OK) {
        print_result(&b);
        if (o->profile)
            print_profile(&b);
    }
    free(b.latent);
    free(b.result);
    free(b.picture);
    vae_stream_free(&b.stream);
    vae_model_free(&b.model);
    return status == VAE_OK ? EXIT_OK : fail(&error);
}
