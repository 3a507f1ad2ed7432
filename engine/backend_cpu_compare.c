/*
 * backend_cpu_compare.c: whether bf16 or fp32 is faster on this processor, as
 * timed with a model's own convolutions. Flags of the processor do not tell:
 * with AVX512_BF16 and without AMX either may be, by the processor, the widths
 * and whether fp32 computes in tiles (backend_cpu_conv_tiles.c).
 *
 * A convolution runs alone, over zeros, on one thread, and the thread's own
 * processor time counts, so that a busy machine changes nothing.
 */
#include <omp.h>
#include <string.h>
#include <time.h>

#include "backend_cpu.h"
#include "model_internal.h"

/* How many convolutions, of different widths. Each runs once, and then LEAST
 * times, or as often as ENOUGH seconds last, at most MOST times: an interrupt
 * counts as much as a short run. */
enum { CONVS = 2, LEAST = 2, MOST = 100 };
#define ENOUGH 0.01

/* One convolution as a program, with weights of zeros and a model of its own
 * that keeps them. */
typedef struct Trial {
    VaeProgram program;
    VaeOp op;
    VaeTensor x, y, *tensors[2];
    VaeWeight weight;
    VaeTensorInfo info;
    VaeModel model;
    VaeExec *exec;
    void *zeros, *arena, *scratch;
} Trial;

typedef struct CompareJob {
    VaeBackend *cpu;
    const VaeProgram *const *programs;
    double *seconds;
} CompareJob;

/* A sum of the products' times that are the same in both precisions. */
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

/* The convolution with the most work that has not the widths of `other`
 * (NULL: any); NULL: there is none. */
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
trial_free(VaeBackend *cpu, Trial *t)
{
    vae_host_exec_free(&t->exec);
    vae_model_drop_weights(&t->model);
    pthread_mutex_destroy(&t->model.lock);
    vae_mem_free(t->zeros);
    vae_mem_free(t->arena);
    vae_mem_free(t->scratch);
}

static double
thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double) t.tv_sec + (double) t.tv_nsec * 1e-9;
}

/* The shortest; 0 where it does not run. */
static double
time_trial(VaeBackend *cpu, Trial *t)
{
    double best = 0, sum = 0;
    t->zeros = vae_mem_alloc(t->info.bytes);
    t->info.data = t->zeros;
    if (!t->zeros || !vae_program_plan(&t->program) ||
        vae_cpu_prepare(cpu, &t->model, &t->program, &t->exec, NULL) != VAE_OK)
        return 0;
    t->arena = vae_mem_alloc(t->program.arena);
    t->scratch = vae_mem_alloc(t->exec->scratch);
    if (!t->arena || !t->scratch)
        return 0;
    t->exec->memory = (VaeMemory){.arena = t->arena, .scratch = t->scratch};
    for (int i = 0; i <= LEAST || (i <= MOST && sum < ENOUGH); i++) {
        const double start = thread_seconds();
        const VaeHostOp *own = &t->exec->ops[0];
        if (own->run(own->own, &t->op, NULL) != VAE_OK)
            return 0;
        const double took = thread_seconds() - start;
        if (i == 1 || (i > 1 && took < best))
            best = took;
        sum += took;
    }
    return best;
}

static double
time_op(VaeBackend *cpu, const VaeOp *op, int steps)
{
    Trial t = {.exec = NULL};
    if (pthread_mutex_init(&t.model.lock, NULL) != 0)
        return 0;
    describe(&t, op, steps);
    const double seconds = time_trial(cpu, &t);
    trial_free(cpu, &t);
    return seconds;
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
        const double wide = time_op(j->cpu, op, fp32->steps);
        const double narrow = time_op(j->cpu, same, bf16->steps);
        if (wide > 0 && narrow > 0) {
            j->seconds[0] += wide;
            j->seconds[1] += narrow;
        }
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
