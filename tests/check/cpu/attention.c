/*
 * attention.c: compares the attention of the cpu backend with the ref backend.
 */
#include "backends.h"
#include "number.h"

/*
 * q, k and v are in -1..1. A score is at most sqrt(c), and is off by at most d
 * = 8 sqrt(c) 2^-24 sqrt(c). Its exponential is off by the factor 1 + d and by
 * about 2^-21 of its value. The mean of v is off by at most twice that. In bf16
 * the probabilities and the result are also rounded, by 2^-9 each.
 */
static float *
attention_bounds(VaeCheck *t, const VaeOneOp *op)
{
    const size_t n = vae_frame_size(op->y) * VAE_FRAMES;
    float *y = vae_check_buffer(t, n * sizeof *y, sizeof *y);
    const float d = 8 * (float) op->y.c * 0x1p-24f + 0x1p-21f;
    const float half = op->type == VAE_TYPE_BF16 ? 2 * 0x1p-9f : 0;
    for (size_t i = 0; i < n; i++)
        y[i] = 2 * d + half;
    return y;
}

static void
check_attentions(VaeCheck *t, VaePrecision precision)
{
    /* height, width, channels; and -1: no history, or its window */
    static const int sizes[][4] = {
        {1, 1, 8, -1},   {5, 7, 24, -1},   {16, 16, 32, -1}, {13, 20, 96, -1},
        {17, 31, 3, -1}, {6, 10, 384, -1}, {1, 1, 8, 0},     {5, 7, 24, 0},
        {17, 31, 3, 0},  {13, 20, 96, 0},  {5, 7, 24, 2},    {17, 31, 16, 3}};
    VaeBackends b;
    if (!vae_backends_open(t, precision, &b))
        return;
    for (size_t i = 0; i < VAE_COUNT(sizes); i++) {
        const int h = sizes[i][0], w = sizes[i][1], c = sizes[i][2];
        const int window = sizes[i][3];
        const VaeOneOp op = {.kind = VAE_OP_ATTENTION,
                             .type = vae_act_type(precision),
                             .x = {VAE_FRAMES, h, w, 3 * c},
                             .y = {VAE_FRAMES, h, w, c},
                             .so_far = window >= 0,
                             .window = window < 0 ? 0 : window};
        if (!vae_check_begin(t, "attention_%s_%dx%d_c%d_%d",
                             vae_precision_name(precision), h, w, c, window))
            continue;
        float *x = vae_check_random(t, vae_frame_size(op.x) * VAE_FRAMES, 0.5f);
        for (size_t j = 0; j < vae_frame_size(op.x) * VAE_FRAMES; j++)
            x[j] = vae_from_bf16(vae_to_bf16(fminf(fmaxf(x[j], -1), 1)));
        const float *want = vae_backends_ref(t, &b, op, x, NULL);
        vae_backends_compare(t, &b, &op, (VaeOneInput){x, NULL}, want,
                             attention_bounds(t, &op));
    }
    vae_backends_close(&b);
}

/* A cancelled large attention ends early. */
static void
check_attention_cancelled(VaeCheck *t)
{
    const VaeOneOp op = {.kind = VAE_OP_ATTENTION,
                         .type = VAE_TYPE_F32,
                         .x = {VAE_FRAMES, 64, 128, 3 * 8},
                         .y = {VAE_FRAMES, 64, 128, 8}};
    VaeBackends b;
    if (!vae_check_begin(t, "attention_cancelled") ||
        !vae_backends_open(t, VAE_PRECISION_FP32, &b))
        return;
    const float *x =
        vae_check_random(t, vae_frame_size(op.x) * VAE_FRAMES, 0.5f);
    VaeWeightCache cache;
    vae_weight_cache_init(&cache);
    VaeRig *rig = vae_rig_new(t, &vae_backend_cpu, b.cpu[0], &cache, &op);
    /* On a busy machine the thread that cancels may come late. */
    bool ended = false;
    for (int i = 0; i < 5 && rig && !ended; i++)
        ended = vae_rig_cancel(rig, x);
    vae_check_that(t, ended, "a cancelled attention computed its last row");
    vae_rig_free(&rig);
    vae_weight_cache_clear(&cache);
    vae_backends_close(&b);
}

static void
check_attention_fp32(VaeCheck *t)
{
    check_attentions(t, VAE_PRECISION_FP32);
}

static void
check_attention_bf16(VaeCheck *t)
{
    check_attentions(t, VAE_PRECISION_BF16);
}

VAE_CHECK_MAIN(check_attention_fp32, check_attention_bf16,
               check_attention_cancelled)
