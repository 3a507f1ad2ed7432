/*
 * compare.c: measures if bf16 or fp32 is faster on this processor, with
 * convolutions of the model. The flags of a processor with AVX512_BF16 and
 * without AMX do not tell: it depends on the processor, on the number of
 * channels, and on Winograd convolutions in fp32 (cpu/winograd.c).
 *
 * A convolution runs over zeros, on one thread. The times are processor times
 * of this thread, so that other load on the machine has little influence.
 */
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cpu.h"
#include "vae-private/os.h"

/* CONVS: number of convolutions that are timed, of different widths. Runs in
 * both precisions alternate, so that a temporarily slow processor slows both.
 * PAIRS: number of pairs of runs, after one pair that is discarded. */
enum { CONVS = 2, PAIRS = 15 };

/* A program of one convolution, with zeros as weights in a cache of its own. */
typedef struct Trial {
    VaeProgram program;
    VaeOp op;
    VaeTensor x, y, *tensors[2];
    VaeWeight weight;
    VaeTensorInfo info;
    VaeWeightCache cache;
    VaeExec *exec;
    void *zeros, *arena, *scratch;
} Trial;

typedef struct CompareJob {
    VaeBackend *cpu;
    const VaeProgram *const *programs;
    double *seconds;
} CompareJob;

/* The number of multiplications of the convolution, the same in both
 * precisions. */
static double
work(const VaeOp *op)
{
    const VaeShape y = op->y->shape;
    return (double) y.t * y.h * y.w * y.c * op->x->shape.c * op->conv.k *
           op->conv.k * op->conv.kt;
}

static bool
same_widths(const VaeOp *a, const VaeOp *b)
{
    return a->x->shape.c == b->x->shape.c && a->y->shape.c == b->y->shape.c &&
           a->conv.k == b->conv.k && a->conv.kt == b->conv.kt;
}

/* The convolution with the most work whose widths differ from those of `other`,
 * which may be NULL. NULL: there is none. */
static const VaeOp *
largest(const VaeProgram *program, const VaeOp *other)
{
    const VaeOp *best = NULL;
    for (int i = 0; i < program->n_ops; i++) {
        const VaeOp *op = &program->ops[i];
        if (op->kind == VAE_OP_CONV && (!other || !same_widths(op, other)) &&
            (!best || work(op) > work(best)))
            best = op;
    }
    return best;
}

static const VaeOp *
find(const VaeProgram *program, const char *name)
{
    for (int i = 0; i < program->n_ops; i++)
        if (program->ops[i].kind == VAE_OP_CONV &&
            strcmp(program->ops[i].name, name) == 0)
            return &program->ops[i];
    return NULL;
}

static void
describe(Trial *t, const VaeOp *op, int steps)
{
    t->x = *op->x;
    t->x.root = &t->x;
    t->x.ctx = t->x.front = op->conv.kt - 1;
    t->y = *op->y;
    t->y.root = &t->y;
    t->x.id = 0;
    t->y.id = 1;
    t->tensors[0] = &t->x;
    t->tensors[1] = &t->y;
    t->weight = *op->weight;
    t->weight.kind = VAE_WEIGHT_CONV;
    t->weight.taps = VAE_TAPS_OWN;
    t->weight.n_parts = 1;
    t->weight.part[0] = &t->info;
    t->weight.file = NULL;
    t->info =
        (VaeTensorInfo){.name = op->name,
                        .type = VAE_TYPE_F32,
                        .bytes = vae_weight_count(&t->weight) * sizeof(float)};
    t->op = *op;
    t->op.x = &t->x;
    t->op.y = &t->y;
    t->op.weight = &t->weight;
    t->op.add = NULL;
    t->op.bias = NULL;
    t->op.carry = NULL;
    t->program = (VaeProgram){.label = "trial",
                              .steps = steps,
                              .ops = &t->op,
                              .n_ops = 1,
                              .tensors = t->tensors,
                              .n_tensors = 2};
}

static void
trial_free(Trial *t)
{
    vae_exec_free(&t->exec);
    vae_weight_cache_clear(&t->cache);
    vae_mem_free(t->zeros);
    vae_mem_free(t->arena);
    vae_mem_free(t->scratch);
}

static bool
trial_new(VaeBackend *cpu, const VaeOp *op, int steps, Trial *t)
{
    if (!vae_weight_cache_init(&t->cache))
        return false;
    describe(t, op, steps);
    t->zeros = vae_mem_alloc(t->info.bytes);
    t->info.data = t->zeros;
    if (!t->zeros || !vae_program_plan(&t->program) ||
        vae_cpu_prepare(cpu, &t->cache, &t->program, &t->exec, NULL) != VAE_OK)
        return false;
    t->arena = vae_mem_alloc(t->program.arena);
    t->scratch = vae_mem_alloc(t->exec->scratch);
    t->exec->memory = (VaeMemory){.arena = t->arena, .scratch = t->scratch};
    return t->arena && t->scratch;
}

/* Seconds of one run; 0 if it fails. */
static double
time_once(Trial *t)
{
    const VaeExecOp *own = &t->exec->ops[0];
    const double start = vae_os_thread_seconds();
    return own->run(own->own, &t->op, NULL) == VAE_OK
               ? vae_os_thread_seconds() - start
               : 0;
}

static int
by_size(const void *a, const void *b)
{
    const double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

/* Adds to both times: for fp32 the shortest run, for bf16 the same time
 * multiplied by the median ratio of the pairs. */
static void
time_pairs(Trial *fp32, Trial *bf16, double seconds[2])
{
    double quotient[PAIRS], best = 0;
    for (int i = -1; i < PAIRS; i++) {
        const double wide = time_once(fp32), narrow = time_once(bf16);
        if (wide <= 0 || narrow <= 0)
            return;
        if (i < 0)
            continue;
        quotient[i] = narrow / wide;
        best = i == 0 || wide < best ? wide : best;
    }
    qsort(quotient, PAIRS, sizeof *quotient, by_size);
    seconds[0] += best;
    seconds[1] += best * quotient[PAIRS / 2];
}

static void
time_op(VaeBackend *cpu, const VaeProgram *const programs[2],
        const VaeOp *const ops[2], double seconds[2])
{
    Trial t[2] = {{.exec = NULL}, {.exec = NULL}};
    const bool made =
        trial_new(cpu, ops[0], vae_op_steps(programs[0], ops[0]), &t[0]) &&
        trial_new(cpu, ops[1], vae_op_steps(programs[1], ops[1]), &t[1]);
    if (made)
        time_pairs(&t[0], &t[1], seconds);
    trial_free(&t[0]);
    trial_free(&t[1]);
}

static VaeStatus
compare_job(void *user)
{
    const CompareJob *j = user;
    const VaeProgram *fp32 = j->programs[0], *bf16 = j->programs[1];
    const int threads = j->cpu->params.threads;
    const VaeOp *op = NULL, *same;
    j->cpu->params.threads = 1;
    omp_set_num_threads(1);
    for (int n = 0; n < CONVS; n++) {
        op = largest(fp32, op);
        same = op ? find(bf16, op->name) : NULL;
        if (!same)
            break;
        time_op(j->cpu, j->programs, (const VaeOp *const[]){op, same},
                j->seconds);
    }
    j->cpu->params.threads = threads;
    omp_set_num_threads(threads);
    return VAE_OK;
}

bool
vae_cpu_compare(VaeBackend *cpu, const VaeProgram *const programs[2],
                double seconds[2])
{
    seconds[0] = seconds[1] = 0;
    if (!vae_dnnl_has_bf16() || vae_dnnl_has_amx())
        return false;
    vae_cpu_on_worker(cpu, compare_job, &(CompareJob){cpu, programs, seconds});
    return seconds[0] > 0 && seconds[1] > 0;
}
