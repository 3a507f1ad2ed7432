/*
 * program.c: the builder. See program.h.
 */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend_host.h"
#include "model_internal.h"

#define MAX_PATH 256
#define MAX_DEPTH 8

struct VaeBuilder {
    const VaeBuildParams *params;
    VaeProgram *program;
    VaeHead head;
    VaeStatus status;
    VaeError error;
    char path[MAX_PATH];
    size_t path_end[MAX_DEPTH];
    int depth;
    int ops_room, tensors_room;
};

static const char *const op_names[VAE_OP_KINDS] = {
    "latent-in",   "picture-in", "latent-out", "picture-out", "head-zero",
    "head-repeat", "head-carry", "tail",       "carry-zero",  "conv",
    "norm",        "attention",  "rearrange",  "cast"};

const char *
vae_op_name(VaeOpKind kind)
{
    return kind < VAE_OP_KINDS ? op_names[kind] : "?";
}

void
vae_builder_fail(VaeBuilder *b, VaeStatus status, const char *format, ...)
{
    if (b->status != VAE_OK)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(b->error.message, sizeof b->error.message, format, args);
    va_end(args);
    b->error.status = b->status = status;
}

/* Memory of the builder; on failure the builder fails and NULL comes back. */
static void *
take(VaeBuilder *b, size_t bytes)
{
    void *block = vae_mem_alloc(bytes);
    if (!block)
        vae_builder_fail(b, VAE_ERR_MEMORY,
                         "out of memory (%zu bytes) while "
                         "a program was built",
                         bytes);
    return block;
}

static bool
grow(VaeBuilder *b, void *array, int used, int *room, size_t size)
{
    if (used < *room)
        return true;
    const int wanted = *room ? 2 * *room : 64;
    void *bigger = take(b, (size_t) wanted * size);
    if (!bigger)
        return false;
    void **slot = array;
    if (*slot)
        memcpy(bigger, *slot, (size_t) used * size);
    vae_mem_free(*slot);
    *slot = bigger;
    *room = wanted;
    return true;
}

static char *
copy_text(VaeBuilder *b, const char *text)
{
    char *copy = take(b, strlen(text) + 1);
    if (copy)
        strcpy(copy, text);
    return copy;
}

void
vae_enter(VaeBuilder *b, const char *format, ...)
{
    assert(b->depth < MAX_DEPTH);
    char name[MAX_PATH];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    const size_t end = strlen(b->path);
    b->path_end[b->depth++] = end;
    snprintf(b->path + end, sizeof b->path - end, "%s%s", end ? "." : "", name);
}

void
vae_leave(VaeBuilder *b)
{
    assert(b->depth > 0);
    VaeProgram *p = b->program;
    if (b->status == VAE_OK)
        for (int i = p->n_ops - 1; i >= 0; i--) {
            VaeOp *op = &p->ops[i];
            if (!op->y)
                continue;
            if (!op->block)
                op->block = copy_text(b, b->path);
            break;
        }
    b->path[b->path_end[--b->depth]] = '\0';
}

bool
vae_is_first(const VaeBuilder *b)
{
    return b->params->first;
}

const void *
vae_arch_data(const VaeBuilder *b)
{
    return b->params->model->arch_data;
}

void
vae_set_head(VaeBuilder *b, VaeHead head)
{
    b->head = head;
}

/* path.name, path.name.suffix; an empty name leaves its dot out. */
static void
full_name(const VaeBuilder *b, const char *name, const char *suffix,
          char out[MAX_PATH])
{
    out[0] = '\0';
    const char *parts[3] = {b->path, name, suffix};
    for (int i = 0; i < 3; i++) {
        if (!parts[i] || !parts[i][0])
            continue;
        const size_t end = strlen(out);
        snprintf(out + end, MAX_PATH - end, "%s%s", end ? "." : "", parts[i]);
    }
}

/* ------------------------------------------------------------------ */

static VaeOp *
add_op(VaeBuilder *b, VaeOpKind kind, const char *name)
{
    VaeProgram *p = b->program;
    if (b->status != VAE_OK ||
        !grow(b, &p->ops, p->n_ops, &b->ops_room, sizeof *p->ops))
        return NULL;
    char full[MAX_PATH];
    full_name(b, name, NULL, full);
    VaeOp *op = &p->ops[p->n_ops];
    *op = (VaeOp){.kind = kind, .name = copy_text(b, full)};
    if (!op->name)
        return NULL;
    p->n_ops++;
    return op;
}

static VaeTensor *
add_tensor(VaeBuilder *b, const char *name, VaeShape shape, VaeType type)
{
    VaeProgram *p = b->program;
    if (b->status != VAE_OK || !grow(b, &p->tensors, p->n_tensors,
                                     &b->tensors_room, sizeof *p->tensors))
        return NULL;
    VaeTensor *t = take(b, sizeof *t);
    if (!t)
        return NULL;
    char full[MAX_PATH];
    full_name(b, name, NULL, full);
    *t = (VaeTensor){.name = copy_text(b, full),
                     .shape = shape,
                     .type = type,
                     .root = t,
                     .id = p->n_tensors};
    p->tensors[p->n_tensors++] = t;
    return t->name ? t : NULL;
}

size_t
vae_frame_bytes(const VaeTensor *t)
{
    return (size_t) t->shape.h * t->shape.w * t->shape.c *
           vae_type_size(t->type);
}

static double
tensor_bytes(const VaeTensor *t)
{
    return (double) vae_frame_bytes(t) * t->shape.t;
}

static void
count(VaeOp *op, double flop, double bytes)
{
    op->flop = flop;
    op->bytes = bytes;
}

static VaeCarry *
get_carry(VaeBuilder *b, const char *name, const VaeTensor *like, int frames)
{
    char full[MAX_PATH];
    full_name(b, name, NULL, full);
    VaeCarrySet *set = b->params->carries;
    for (int i = 0; i < set->n; i++) {
        VaeCarry *c = set->items[i];
        if (strcmp(c->name, full) != 0)
            continue;
        assert(c->frames == frames && c->h == like->shape.h &&
               c->w == like->shape.w && c->c == like->shape.c &&
               c->type == like->type);
        return c;
    }
    VaeCarry *c = take(b, sizeof *c);
    VaeCarry **items = take(b, (size_t) (set->n + 1) * sizeof *items);
    char *copy = copy_text(b, full);
    if (!c || !items || !copy) {
        vae_mem_free(c);
        vae_mem_free(items);
        vae_mem_free(copy);
        return NULL;
    }
    *c = (VaeCarry){.name = copy,
                    .frames = frames,
                    .h = like->shape.h,
                    .w = like->shape.w,
                    .c = like->shape.c,
                    .type = like->type,
                    .offset = set->bytes};
    c->bytes = (size_t) frames * vae_frame_bytes(like);
    set->bytes += (c->bytes + 63) / 64 * 64;
    if (set->n)
        memcpy(items, set->items, (size_t) set->n * sizeof *items);
    vae_mem_free(set->items);
    set->items = items;
    set->items[set->n++] = c;
    return c;
}

void
vae_carry_set_free(VaeCarrySet *set)
{
    for (int i = 0; i < set->n; i++) {
        vae_mem_free(set->items[i]->name);
        vae_mem_free(set->items[i]);
    }
    vae_mem_free(set->items);
    *set = (VaeCarrySet){0};
}

/* ------------------------------------------------------------------ */
/* Weights.                                                            */

static void
learn(VaeBuilder *b, const char *name, const int64_t *dims, int n_dims)
{
    VaeModel *m = b->params->model;
    const long known = vae_model_demand(m, name);
    if (known >= 0)
        return;
    VaeDemand *bigger =
        realloc(m->demands, (m->n_demands + 1) * sizeof *bigger);
    char *copy = strdup(name);
    if (bigger)
        m->demands = bigger;
    if (!bigger || !copy) {
        free(copy);
        vae_builder_fail(b, VAE_ERR_MEMORY, "out of memory");
        return;
    }
    VaeDemand *d = &m->demands[m->n_demands++];
    *d = (VaeDemand){.name = copy, .n_dims = n_dims};
    memcpy(d->dims, dims, (size_t) n_dims * sizeof *dims);
}

static void
weight_part(VaeBuilder *b, VaeWeight *w, const char *full, const int64_t *dims,
            int n_dims)
{
    if (b->params->learn) {
        learn(b, full, dims, n_dims);
        return;
    }
    const long i = vae_model_demand(b->params->model, full);
    if (i < 0) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "tensor \"%s\" is not part of "
                         "this model",
                         full);
        return;
    }
    if (w->n_parts == 0)
        w->id = (int) i;
    w->part[w->n_parts++] = &b->params->model->demands[i].found;
}

static VaeWeight *
new_weight(VaeBuilder *b, VaeWeightKind kind)
{
    if (b->status != VAE_OK)
        return NULL;
    VaeWeight *w = take(b, sizeof *w);
    if (w)
        w->kind = kind;
    return w;
}

static VaeWeight *
vector_weight(VaeBuilder *b, const char *name, const char *suffix, int c,
              int n_dims)
{
    VaeWeight *w = new_weight(b, VAE_WEIGHT_VECTOR);
    if (!w)
        return NULL;
    char full[MAX_PATH];
    full_name(b, name, suffix, full);
    const int64_t dims[4] = {c, 1, 1, 1};
    weight_part(b, w, full, dims, n_dims);
    for (int i = 0; i < 5; i++)
        w->dims[i] = i ? 1 : c;
    return w;
}

/* The dimensions that the file has for one part of a conv's weight. */
static int
conv_dims(const VaeConv *conv, int c_out, int c_in, int64_t dims[5])
{
    dims[0] = c_out;
    dims[1] = c_in;
    if (conv->linear)
        return 2;
    dims[2] = conv->kt;
    dims[3] = dims[4] = conv->k;
    if (!conv->two_d)
        return 5;
    dims[2] = conv->k;
    return 4;
}

/* The conv's weight, or with suffix "bias" its bias: c vectors. */
static VaeWeight *
conv_weight(VaeBuilder *b, const char *name, const VaeConv *conv, int c_in,
            bool bias)
{
    VaeWeight *w = new_weight(b, bias ? VAE_WEIGHT_VECTOR : VAE_WEIGHT_CONV);
    if (!w)
        return NULL;
    int n = 0;
    while (n < 3 && conv->stack[n])
        n++;
    const int parts = n ? n : 1;
    for (int i = 0; i < parts; i++) {
        char full[MAX_PATH];
        full_name(b, n ? conv->stack[i] : name, bias ? "bias" : "weight", full);
        int64_t dims[5] = {conv->c / parts};
        const int n_dims =
            bias ? 1 : conv_dims(conv, conv->c / parts, c_in, dims);
        weight_part(b, w, full, dims, n_dims);
    }
    const int dims[5] = {conv->c, bias ? 1 : c_in, bias ? 1 : conv->kt,
                         bias ? 1 : conv->k, bias ? 1 : conv->k};
    memcpy(w->dims, dims, sizeof dims);
    return w;
}

size_t
vae_weight_count(const VaeWeight *w)
{
    size_t n = 1;
    for (int i = 0; i < 5; i++)
        n *= (size_t) w->dims[i];
    return n;
}

void
vae_weight_read(const VaeWeight *w, float *dst)
{
    for (int i = 0; i < w->n_parts; i++) {
        const VaeTensorInfo *t = w->part[i];
        const size_t n = (size_t) t->bytes / vae_type_size(t->type);
        vae_type_to_float(dst, t->data, t->type, n);
        dst += n;
    }
}

/* ------------------------------------------------------------------ */
/* Builder calls.                                                      */

const VaeTensor *
vae_input(VaeBuilder *b)
{
    const VaeBuildParams *q = b->params;
    const bool decode = q->direction == VAE_DECODE;
    VaeOp *op =
        add_op(b, decode ? VAE_OP_LATENT_IN : VAE_OP_PICTURE_IN, "input");
    const VaeShape shape = {.t = b->program->n_in,
                            .h = q->height,
                            .w = q->width,
                            .c = decode ? q->model->info.latent_channels : 3};
    VaeTensor *y = add_tensor(b, "input", shape, q->act);
    if (!op || !y)
        return NULL;
    op->y = y;
    count(op, 0, 2 * tensor_bytes(y));
    return y;
}

void
vae_output(VaeBuilder *b, const VaeTensor *x)
{
    const bool decode = b->params->direction == VAE_DECODE;
    VaeOp *op =
        add_op(b, decode ? VAE_OP_PICTURE_OUT : VAE_OP_LATENT_OUT, "output");
    if (!op)
        return;
    op->x = (VaeTensor *) x;
    count(op, 0, 2 * tensor_bytes(x));
    if (x->shape.t != b->program->n_out)
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "the network gives %d frames where "
                         "%d were expected",
                         x->shape.t, b->program->n_out);
}

static const VaeTensor *
cast_to_act(VaeBuilder *b, const char *name, const VaeTensor *x)
{
    if (x->type == b->params->act)
        return x;
    char cast[MAX_PATH];
    snprintf(cast, sizeof cast, "%s.cast", name);
    VaeOp *op = add_op(b, VAE_OP_CAST, cast);
    VaeTensor *y = add_tensor(b, cast, x->shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    count(op, 0, tensor_bytes(x) + tensor_bytes(y));
    return y;
}

/* Puts ctx frames in front of x: zeros or copies of its first frame at the
 * start of a sequence, the carry afterwards. */
static void
add_head(VaeBuilder *b, const char *name, VaeTensor *x, int ctx,
         VaeCarry *carry)
{
    const bool first = b->params->first;
    const VaeOpKind kind = !first                     ? VAE_OP_HEAD_CARRY
                           : b->head == VAE_HEAD_ZERO ? VAE_OP_HEAD_ZERO
                                                      : VAE_OP_HEAD_REPEAT;
    if (x->ctx) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s: two convolutions want context "
                         "in front of one tensor",
                         x->name);
        return;
    }
    x->ctx = ctx;
    VaeOp *op = add_op(b, kind, name);
    if (!op)
        return;
    op->x = x;
    op->carry = first ? NULL : carry;
    count(op, 0, 2.0 * ctx * (double) vae_frame_bytes(x));
}

static void
add_tail(VaeBuilder *b, const char *name, VaeTensor *x, VaeCarry *carry)
{
    VaeOp *op = add_op(b, VAE_OP_TAIL, name);
    if (!op)
        return;
    op->x = x;
    op->carry = carry;
    count(op, 0, 2.0 * (double) carry->bytes);
}

static VaeConv
conv_defaults(VaeConv c)
{
    c.k = c.k ? c.k : 1;
    c.kt = c.kt ? c.kt : 1;
    c.s = c.s ? c.s : 1;
    c.st = c.st ? c.st : 1;
    return c;
}

const VaeTensor *
vae_conv(VaeBuilder *b, const char *name, const VaeTensor *input, VaeConv conv)
{
    if (b->status != VAE_OK || !input)
        return NULL;
    conv = conv_defaults(conv);
    VaeTensor *x = (VaeTensor *) cast_to_act(b, name, input);
    if (!x)
        return NULL;
    const VaeShape in = x->shape;
    VaeCarry *carry = NULL;
    int ctx = 0;
    if (conv.kt > 1) {
        const int keep = conv.kt - conv.st;
        ctx = b->params->first ? conv.kt - 1 : keep;
        carry = get_carry(b, name, x, keep);
        if (!carry)
            return NULL;
        add_head(b, name, x, ctx, carry);
    }
    const VaeShape out = {.t = (ctx + in.t - conv.kt) / conv.st + 1,
                          .h = in.h / conv.s,
                          .w = in.w / conv.s,
                          .c = conv.c};
    VaeOp *op = add_op(b, VAE_OP_CONV, name);
    VaeTensor *y = add_tensor(b, name, out, VAE_TYPE_F32);
    if (!op || !y)
        return NULL;
    op->x = x;
    op->y = y;
    op->conv.k = conv.k;
    op->conv.kt = conv.kt;
    op->conv.s = conv.s;
    op->conv.st = conv.st;
    op->conv.pad = conv.pad == VAE_PAD_SAME ? conv.k / 2 : 0;
    if (conv.add) {
        op->add = (VaeTensor *) conv.add;
        y->root = op->add->root;
    }
    const double macs = (double) out.t * out.h * out.w * out.c * in.c *
                        conv.kt * conv.k * conv.k;
    count(op, 2 * macs,
          tensor_bytes(x) + tensor_bytes(y) * (conv.add ? 2 : 1) +
              (double) ctx * (double) vae_frame_bytes(x) +
              (double) conv.c * in.c * conv.kt * conv.k * conv.k *
                  (double) vae_type_size(x->type));
    op->weight = conv_weight(b, name, &conv, in.c, false);
    op->bias = conv.no_bias ? NULL : conv_weight(b, name, &conv, in.c, true);
    if (carry)
        add_tail(b, name, x, carry);
    return b->status == VAE_OK ? y : NULL;
}

void
vae_carry_zero(VaeBuilder *b, const char *name, const VaeTensor *x, int frames)
{
    if (b->status != VAE_OK || !x)
        return;
    VaeTensor like = *x;
    like.type = b->params->act;
    VaeCarry *carry = get_carry(b, name, &like, frames);
    VaeOp *op = add_op(b, VAE_OP_CARRY_ZERO, name);
    if (!carry || !op)
        return;
    op->carry = carry;
    count(op, 0, (double) carry->bytes);
}

void
vae_carry_keep(VaeBuilder *b, const char *name, const VaeTensor *x, int frames)
{
    if (b->status != VAE_OK || !x)
        return;
    VaeTensor *t = (VaeTensor *) cast_to_act(b, name, x);
    VaeCarry *carry = t ? get_carry(b, name, t, frames) : NULL;
    if (carry)
        add_tail(b, name, t, carry);
}

static const VaeTensor *
add_norm(VaeBuilder *b, const char *name, const VaeTensor *x, VaeNormKind kind,
         int groups, bool silu)
{
    VaeOp *op = add_op(b, VAE_OP_NORM, name);
    VaeTensor *y = add_tensor(b, name, x->shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    op->norm.kind = kind;
    op->norm.groups = groups;
    op->norm.silu = silu;
    const double n = (double) x->shape.t * x->shape.h * x->shape.w * x->shape.c;
    count(op, (silu ? 8 : 4) * n, tensor_bytes(x) + tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_rms(VaeBuilder *b, const char *name, const VaeTensor *x, bool silu,
        bool image)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const VaeTensor *y = add_norm(b, name, x, VAE_NORM_RMS, 1, silu);
    if (!y)
        return NULL;
    VaeOp *op = &b->program->ops[b->program->n_ops - 1];
    op->weight = vector_weight(b, name, "gamma", x->shape.c, image ? 3 : 4);
    return y;
}

const VaeTensor *
vae_group_norm(VaeBuilder *b, const char *name, const VaeTensor *x, int groups,
               bool silu)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    if (groups < 1 || x->shape.c % groups) {
        vae_builder_fail(b, VAE_ERR_MODEL,
                         "%s%s%s: %d channels do not divide "
                         "into %d groups; state norm_num_groups in the file's "
                         "metadata or in config.json",
                         b->path, b->path[0] ? "." : "", name, x->shape.c,
                         groups);
        return NULL;
    }
    const VaeTensor *y = add_norm(b, name, x, VAE_NORM_GROUP, groups, silu);
    if (!y)
        return NULL;
    VaeOp *op = &b->program->ops[b->program->n_ops - 1];
    op->weight = vector_weight(b, name, "weight", x->shape.c, 1);
    op->bias = vector_weight(b, name, "bias", x->shape.c, 1);
    return y;
}

const VaeTensor *
vae_attention(VaeBuilder *b, const char *name, const VaeTensor *qkv)
{
    if (b->status != VAE_OK || !qkv)
        return NULL;
    VaeShape shape = qkv->shape;
    shape.c /= 3;
    VaeOp *op = add_op(b, VAE_OP_ATTENTION, name);
    VaeTensor *y = add_tensor(b, name, shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) qkv;
    op->y = y;
    const double n = (double) shape.h * shape.w;
    count(op, 4 * n * n * shape.c * shape.t,
          tensor_bytes(qkv) + tensor_bytes(y));
    return y;
}

const VaeTensor *
vae_rearrange(VaeBuilder *b, const char *name, const VaeTensor *x,
              VaeRearrange kind, int ft, int fs, int drop)
{
    if (b->status != VAE_OK || !x)
        return NULL;
    const int split = kind == VAE_UNFOLD_NEAREST ? ft : ft * fs * fs;
    const VaeShape shape = {.t = x->shape.t * ft - drop,
                            .h = x->shape.h * fs,
                            .w = x->shape.w * fs,
                            .c = x->shape.c / split};
    VaeOp *op = add_op(b, VAE_OP_REARRANGE, name);
    VaeTensor *y = add_tensor(b, name, shape, b->params->act);
    if (!op || !y)
        return NULL;
    op->x = (VaeTensor *) x;
    op->y = y;
    op->rearrange.kind = kind;
    op->rearrange.ft = ft;
    op->rearrange.fs = fs;
    op->rearrange.drop = drop;
    count(op, 0, tensor_bytes(x) + tensor_bytes(y));
    return y;
}

/* ------------------------------------------------------------------ */

/* Results computed in place over `add` are right only when nothing reads
 * `add` afterwards. */
static void
check_in_place(VaeBuilder *b)
{
    const VaeProgram *p = b->program;
    for (int i = 0; i < p->n_ops; i++) {
        const VaeTensor *add = p->ops[i].add;
        if (!add)
            continue;
        for (int j = i + 1; j < p->n_ops; j++)
            if (p->ops[j].x == add || p->ops[j].add == add)
                vae_builder_fail(b, VAE_ERR_MODEL,
                                 "%s: %s is read after "
                                 "a sum was written over it",
                                 p->ops[j].name, add->name);
    }
}

static void
finish(VaeBuilder *b)
{
    check_in_place(b);
    VaeProgram *p = b->program;
    for (int i = 0; i < p->n_ops; i++) {
        p->flop += p->ops[i].flop;
        p->bytes += p->ops[i].bytes;
    }
    if (b->status == VAE_OK && !vae_program_plan(p))
        vae_builder_fail(b, VAE_ERR_MEMORY, "out of memory");
}

VaeStatus
vae_program_build(const VaeBuildParams *params, VaeProgram **out,
                  VaeError *error)
{
    *out = NULL;
    const VaeModel *m = params->model;
    const bool decode = params->direction == VAE_DECODE;
    const VaeSteps *s = decode ? &m->info.decode : &m->info.encode;
    VaeBuilder b = {.params = params};
    b.program = vae_mem_alloc(sizeof *b.program);
    if (!b.program)
        return vae_fail(error, VAE_ERR_MEMORY, "out of memory");
    VaeProgram *p = b.program;
    p->label = params->label;
    p->direction = params->direction;
    p->steps = params->steps;
    p->n_in = params->first ? s->first_in : s->step_in * params->steps;
    p->n_out = params->first ? s->first_out : s->step_out * params->steps;
    (decode ? m->arch->decode : m->arch->encode)(&b);
    finish(&b);
    if (b.status != VAE_OK) {
        vae_program_free(&b.program);
        return vae_fail(error, b.status, "%s", b.error.message);
    }
    *out = b.program;
    return VAE_OK;
}

void
vae_program_free(VaeProgram **program)
{
    VaeProgram *p = *program;
    *program = NULL;
    if (!p)
        return;
    for (int i = 0; i < p->n_ops; i++) {
        vae_mem_free((char *) p->ops[i].name);
        vae_mem_free((char *) p->ops[i].block);
        vae_mem_free(p->ops[i].weight);
        vae_mem_free(p->ops[i].bias);
    }
    for (int i = 0; i < p->n_tensors; i++) {
        vae_mem_free(p->tensors[i]->name);
        vae_mem_free(p->tensors[i]);
    }
    vae_mem_free(p->ops);
    vae_mem_free(p->tensors);
    vae_mem_free(p);
}
