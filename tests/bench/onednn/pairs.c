/*
 * pairs.c: compares a network with a matrix product, in turns.
 *
 *   bench-pairs NETWORK DIRECTION PRECISION WxH THREADS STEPS [SIDE [plain]]
 *
 * NETWORK: a name as for `vaetool make-weights`, or a weights file. After each
 * convolution of a step on the cpu backend, a product of two SIDExSIDE matrices
 * (2048x2048 by default) runs with the same library, threads and precision. The
 * program compares the time of each operation with the time that it would take
 * at the rate of the products just before and after it. The quotient is
 * therefore valid even if the machine's speed changes from second to second.
 * The second of two products is timed, because the first one loads the operands
 * into the caches. The network has to load its operands, too, and this counts
 * against it. With one thread the times are the processor's, so that other
 * programs disturb them less.
 *
 * plain: instead of each convolution, one of the library runs without the
 * engine's methods, with the operations that the network defines.
 *
 * It prints for each step the median rate of the products in GFLOP/s (gemm),
 * and in percent of it the rate of the step (whole) and of its convolutions
 * alone (conv). Winograd's method computes fewer operations than the network
 * defines. The last column (network) is the rate of the step with the
 * operations that the network defines. The last line has the medians of all
 * steps.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "median.h"
#include "plain.h"
#include "product.h"
#include "stream.h"

enum { MOST_STEPS = 99, MOST_FRAMES = 64, COLUMNS = 4 };

typedef struct Hook {
    VaeExecOp op; /* the original op */
    struct Bench *bench;
    Plain plain; /* empty: the op runs */
} Hook;

typedef struct Bench {
    VaeModel *model;
    VaeStream *stream;
    VaeStreamParams params;
    Product product;
    bool plain;
    VaeExec *exec;
    Hook *hooks; /* of the ops of exec */
    void *data;  /* of all latents, or all pictures */
    VaeLatentIn latents[MOST_FRAMES];
    VaeLatentOut results[MOST_FRAMES];
    VaePicture pictures[MOST_FRAMES];

    /* The values of one step. */
    double last;                  /* seconds of the last product */
    double left_off;              /* the time at which it ended */
    double conv_took, conv_needs; /* seconds; at the rate of the products */
    double rest_took;             /* seconds of all other ops */
    double *rates;                /* seconds of each */
    int n_rates;
} Bench;

static void
need(VaeStatus status, const VaeError *error)
{
    if (status == VAE_OK)
        return;
    fprintf(stderr, "bench-pairs: %s\n", error->message);
    exit(3);
}

static void
time_product(Bench *b)
{
    product_run(&b->product);
    b->last = product_run(&b->product);
    b->rates[b->n_rates++] = b->last;
    b->left_off = product_now();
}

static double
flop_of(const Bench *b, const VaeOp *op)
{
    return b->plain && op->kind == VAE_OP_CONV ? plain_flop(op) : op->flop;
}

/* Replaces a convolution: runs it and the products. */
static VaeStatus
run_pair(void *own, const VaeOp *op, VaeError *error)
{
    const Hook *h = own;
    Bench *b = h->bench;
    const double before = b->last, start = product_now();
    b->rest_took += start - b->left_off;
    VaeStatus status = VAE_OK;
    if (b->plain)
        plain_run(&h->plain, &b->product.dnnl, op);
    else
        status = h->op.run(h->op.own, op, error);
    const double end = product_now();
    time_product(b);
    b->conv_took += end - start;
    /* The expected rate is the mean of the two rates, not of the times. */
    b->conv_needs += flop_of(b, op) / product_flop(&b->product) /
                     (0.5 / before + 0.5 / b->last);
    return status;
}

static void
hook(Bench *b, bool on)
{
    const VaeProgram *p = b->exec->program;
    for (int i = 0; i < p->n_ops; i++) {
        VaeExecOp *op = &b->exec->ops[i];
        if (p->ops[i].kind != VAE_OP_CONV || !b->hooks[i].op.run)
            continue;
        op->run = on ? run_pair : b->hooks[i].op.run;
        op->own = on ? (void *) &b->hooks[i] : b->hooks[i].op.own;
    }
}

static void
make_data(Bench *b, const VaeModelInfo *info, int n_pictures)
{
    const VaeStreamParams *p = &b->params;
    const size_t latent = (size_t) info->latent_channels *
                          (size_t) (p->height / info->spatial) *
                          (size_t) (p->width / info->spatial);
    const size_t picture = (size_t) p->width * (size_t) p->height * 3;
    const bool fits = n_pictures <= MOST_FRAMES;
    float *values = calloc(MOST_FRAMES, latent * sizeof *values);
    uint8_t *pixels = malloc(picture);
    if (!fits || !values || !pixels) {
        fprintf(stderr, "bench-pairs: %s\n",
                fits ? "out of memory" : "too many frames in a step");
        exit(3);
    }
    for (size_t i = 0; i < latent * MOST_FRAMES; i++)
        values[i] = (float) ((i * 2654435761u >> 7) % 2048) / 1024 - 1;
    for (size_t i = 0; i < picture; i++)
        pixels[i] = (uint8_t) (i * 2654435761u >> 11);
    for (int k = 0; k < MOST_FRAMES; k++) {
        b->latents[k] = (VaeLatentIn){.type = VAE_TYPE_F32,
                                      .data = values + latent * (size_t) k};
        b->results[k] = (VaeLatentOut){.type = VAE_TYPE_F32,
                                       .data = values + latent * (size_t) k};
        b->pictures[k] = (VaePicture){.pixels = VAE_PIXELS_RGB,
                                      .width = p->width,
                                      .height = p->height,
                                      .data = {pixels},
                                      .stride = {(ptrdiff_t) p->width * 3}};
    }
}

static void
step(Bench *b)
{
    VaeError error;
    int n_in, n_out;
    vae_stream_count(b->stream, 1, &n_in, &n_out);
    if (b->params.direction == VAE_DECODE)
        need(vae_stream_decode(b->stream, b->latents, n_in, b->pictures, n_out,
                               &error),
             &error);
    else
        need(vae_stream_encode(b->stream, b->pictures, n_in, b->results, n_out,
                               &error),
             &error);
}

static void
open_hook(Bench *b, int i)
{
    const VaeOp *op = &b->exec->program->ops[i];
    b->hooks[i] = (Hook){.op = b->exec->ops[i], .bench = b};
    if (b->plain && op->kind == VAE_OP_CONV)
        plain_open(&b->hooks[i].plain, &b->product.dnnl, op);
}

static void
open_bench(Bench *b, const char *network, int side)
{
    VaeError error;
    const char *const *arch = vae_model_archs();
    while (*arch && strcmp(*arch, network) != 0)
        arch++;
    need(*arch ? vae_model_generate(network, &b->model, &error)
               : vae_model_open(network, NULL, &b->model, &error),
         &error);
    need(vae_stream_new(b->model, &b->params, &b->stream, &error), &error);
    const VaeModelInfo *info = vae_model_info(b->model);
    make_data(b, info,
              b->params.direction == VAE_DECODE ? info->decode.step_out
                                                : info->encode.step_in);
    b->exec = b->stream->main.execs[NEXT1] ? b->stream->main.execs[NEXT1]
                                           : b->stream->main.execs[NEXT];
    const size_t n = (size_t) b->exec->program->n_ops;
    b->hooks = calloc(n, sizeof *b->hooks);
    b->rates = calloc(n + 1, sizeof *b->rates);
    if (!b->hooks || !b->rates) {
        fprintf(stderr, "bench-pairs: out of memory\n");
        exit(3);
    }
    product_open(&b->product, side, b->params.precision == VAE_PRECISION_BF16);
    for (size_t i = 0; i < n; i++)
        open_hook(b, (int) i);
}

static void
close_bench(Bench *b)
{
    for (int i = 0; i < b->exec->program->n_ops; i++)
        plain_close(&b->hooks[i].plain);
    product_close(&b->product);
    free((void *) b->latents[0].data);
    free(b->pictures[0].data[0]);
    free(b->hooks);
    free(b->rates);
    vae_stream_free(&b->stream);
    vae_model_free(&b->model);
}

/* The numbers that the program prints of one step. */
static void
measure(Bench *b, double out[COLUMNS])
{
    double flop = 0, conv = 0, network = 0;
    const VaeProgram *p = b->exec->program;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeOp *op = &p->ops[i];
        flop += flop_of(b, op);
        conv += op->kind == VAE_OP_CONV ? flop_of(b, op) : 0;
        network += op->kind == VAE_OP_CONV ? plain_flop(op) : op->flop;
    }
    b->conv_took = b->conv_needs = b->rest_took = 0;
    b->n_rates = 0;
    time_product(b);
    step(b);
    b->rest_took += product_now() - b->left_off;
    const double needs = b->conv_needs * flop / conv; /* includes attention */
    out[0] = product_flop(&b->product) / median(b->rates, (size_t) b->n_rates) *
             1e-9;
    out[1] = 100 * needs / (b->conv_took + b->rest_took);
    out[2] = 100 * b->conv_needs / b->conv_took;
    out[3] = out[1] * network / flop;
}

static void
print_row(const char *title, const double row[COLUMNS])
{
    printf("%s%.1f,%.1f,%.1f,%.1f\n", title, row[0], row[1], row[2], row[3]);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    static double all[COLUMNS][MOST_STEPS];
    Bench b = {.params = {.struct_size = sizeof(VaeStreamParams),
                          .backend = VAE_BACKEND_CPU,
                          .slice_size = 1}};
    const int steps = argc >= 7 && argc <= 9 ? atoi(argv[6]) : 0;
    const int side = argc >= 8 ? atoi(argv[7]) : PRODUCT_SIDE;
    char more;
    if (steps < 1 || steps > MOST_STEPS || side < 1 ||
        !vae_precision_parse(argv[3], &b.params.precision) ||
        sscanf(argv[4], "%dx%d%c", &b.params.width, &b.params.height, &more) !=
            2 ||
        (b.params.threads = atoi(argv[5])) < 1 ||
        (argc == 9 && strcmp(argv[8], "plain") != 0)) {
        fprintf(stderr, "usage: bench-pairs NETWORK decode|encode fp32|bf16 "
                        "WIDTHxHEIGHT THREADS STEPS [SIDE [plain]]\n");
        return 2;
    }
    b.params.direction = strcmp(argv[2], "encode") ? VAE_DECODE : VAE_ENCODE;
    b.plain = argc == 9;
    if (b.params.threads == 1)
        product_clock = CLOCK_PROCESS_CPUTIME_ID;
    omp_set_num_threads(b.params.threads);
    open_bench(&b, argv[1], side);
    /* The first of a sequence, those in which a decoder with a delay does not
     * compute all of its layers, and one more. */
    const bool decodes = b.params.direction == VAE_DECODE;
    const int ahead = decodes ? vae_model_info(b.model)->look_ahead : 0;
    for (int i = 0; i < ahead + 2; i++)
        step(&b);
    hook(&b, true);
    printf("gemm,whole,conv,network\n");
    for (int i = 0; i < steps; i++) {
        double now[COLUMNS];
        measure(&b, now);
        for (int k = 0; k < COLUMNS; k++)
            all[k][i] = now[k];
        print_row("", now);
    }
    hook(&b, false);
    double medians[COLUMNS];
    for (int k = 0; k < COLUMNS; k++)
        medians[k] = median(all[k], (size_t) steps);
    print_row("medians: ", medians);
    close_bench(&b);
    return 0;
}
