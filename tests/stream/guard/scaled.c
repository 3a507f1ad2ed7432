/*
 * scaled.c: activations a hundred times larger do not overflow.
 *
 * scaled MODEL BACKEND PRECISION
 *
 * The test changes the small golden weights so that the input of every norm
 * becomes 100 times as large. Layers that read a norm, latents or pictures, and
 * write the input of a norm, get 100 times the weight and bias. Layers that
 * pass on a sum get 100 times the bias. Norms remove the factor, so the output
 * must not change.
 */
#include "../streams.h"

enum { T = 3, W = 48, H = 32, MAX_TENSORS = 400 };
#define FACTOR 100.0f

static const char *const whole[] = {
    "residual.2.",    "residual.6.", ".proj.",
    "encoder.conv1.", "conv_in.",    "decoder.conv1.",
    ".resnets.",      "to_out.0.",   NULL};
static const char *const none[] = {"norm", "conv_shortcut.weight", NULL};
static const char *const passing[] = {
    "shortcut.bias",        "resample.1.bias",   "time_conv.bias",
    "samplers.0.conv.bias", "upscale_conv.bias", NULL};

static bool
has_any(const char *name, const char *const *parts)
{
    for (; *parts; parts++)
        if (strstr(name, *parts))
            return true;
    return false;
}

static bool
is_scaled(const char *name)
{
    return has_any(name, passing) ||
           (has_any(name, whole) && !has_any(name, none));
}

/* Writes the changed weights to path. */
static VaeStatus
scale(const char *weights, const char *path, VaeError *error)
{
    SCOPED_FILE VaeTensorFile *file = NULL;
    must(vae_tensor_file_open(weights, &file, error), error);
    const size_t n = vae_tensor_file_count(file);
    SCOPED_BLOCK VaeTensorOut *out = test_alloc(n * sizeof *out);
    size_t written = 0;
    int scaled = 0;
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(file, i);
        if (!t->supported) /* a number of batches in 64 bits */
            continue;
        float *values = test_read(file, t->name, NULL);
        const size_t count = (size_t) t->bytes / vae_type_size(t->type);
        const bool by = is_scaled(t->name);
        for (size_t k = 0; by && k < count; k++)
            values[k] *= FACTOR;
        scaled += by;
        out[written] = (VaeTensorOut){.name = t->name,
                                      .type = VAE_TYPE_F32,
                                      .n_dims = t->n_dims,
                                      .data = values};
        memcpy(out[written++].dims, t->dims, sizeof t->dims);
    }
    const char *groups = vae_tensor_file_metadata(file, "norm_num_groups");
    const VaeMetadata meta = {"norm_num_groups", groups};
    const VaeStatus status =
        vae_tensor_file_write(path, out, written, &meta, groups ? 1 : 0, error);
    printf("%d of %zu tensors scaled\n", scaled, written);
    for (size_t i = 0; i < written; i++)
        free((void *) out[i].data);
    return status;
}

/* Records the largest magnitude of each intermediate tensor, and if all values
 * are finite. */
typedef struct Seen {
    struct {
        char name[96];
        double most;
    } row[400];
    int n;
    size_t bad;
} Seen;

static void
look(void *user, const VaeDump *dump)
{
    Seen *s = user;
    const size_t n = (size_t) dump->t * (size_t) dump->h * (size_t) dump->w *
                     (size_t) dump->c;
    const float *values = dump->values;
    int i = 0;
    while (i < s->n && strcmp(s->row[i].name, dump->name) != 0)
        i++;
    if (i == 400)
        return;
    if (i == s->n) {
        snprintf(s->row[s->n].name, sizeof s->row[0].name, "%s", dump->name);
        s->row[s->n++].most = 0;
    }
    for (size_t k = 0; k < n; k++) {
        s->bad += !isfinite(values[k]);
        if (fabs((double) values[k]) > s->row[i].most)
            s->row[i].most = fabs((double) values[k]);
    }
}

static TestClip
result(const Bed *bed, VaeDirection direction, Seen *seen)
{
    static const int plan[] = {1, 0};
    TestClip clip = bed_clip(bed, T, W, H, 0);
    SCOPED_STREAM VaeStream *stream =
        bed_stream(bed, (VaeStreamParams){.direction = direction,
                                          .width = W,
                                          .height = H,
                                          .dump = look,
                                          .dump_user = seen});
    run_clip(bed, stream, direction, &clip, plan);
    return clip;
}

/* True for inputs of norms: the outputs of blocks with a residual. */
static bool
feeds_norm(const char *name)
{
    return strstr(name, "residual.2") || strstr(name, "residual.6") ||
           strstr(name, ".proj") || strstr(name, "to_out") ||
           (strstr(name, "resnets") && strstr(name, ".conv"));
}

static void
compare(const Bed *plain, const Bed *scaled, VaeDirection direction)
{
    static Seen before, after;
    const char *what = direction == VAE_DECODE ? "decode" : "encode";
    size_t n, bytes;
    int looked = 0;
    double least = INFINITY, most = 0, error = 0, power = 0;
    memset(&before, 0, sizeof before);
    memset(&after, 0, sizeof after);
    SCOPED_CLIP TestClip a = result(plain, direction, &before);
    SCOPED_CLIP TestClip b = result(scaled, direction, &after);
    for (int i = 0; i < before.n && i < after.n; i++) {
        if (!feeds_norm(before.row[i].name) ||
            strcmp(before.row[i].name, after.row[i].name) != 0)
            continue;
        const double ratio = after.row[i].most / before.row[i].most;
        least = ratio < least ? ratio : least;
        most = ratio > most ? ratio : most;
        looked++;
    }
    expect(looked > 20 && least > 80 && most < 120,
           "%s: %d inputs of norms are %.1f to %.1f times as large", what,
           looked, least, most);
    expect(after.bad == 0, "%s: %zu values are not finite", what, after.bad);
    const float *x = clip_result(plain, &a, direction, &bytes);
    const float *y = clip_result(scaled, &b, direction, &n);
    n /= sizeof *y;
    for (size_t i = 0; i < n; i++) {
        error += ((double) x[i] - y[i]) * ((double) x[i] - y[i]);
        power += (double) x[i] * x[i];
    }
    const double relative = sqrt(error / power);
    /* The bounds for rounding. In fp32: of sums through a few hundred layers.
     * In bf16: of inputs of convolutions, 2^-9 each, that may round in the
     * other direction. */
    const double bound = plain->precision == VAE_PRECISION_BF16 ? 0.03 : 1e-4;
    expect(relative < bound, "%s: differs by %.2g of the output, bound %.2g",
           what, relative, bound);
}

int
main(int argc, char **argv)
{
    Bed plain, scaled;
    bed_open_main(&plain, argc, argv);
    bed_open_main(&scaled, argc, argv);
    plain.threads = scaled.threads = 2;
    bed_rewrite(&scaled, scale);
    compare(&plain, &scaled, VAE_DECODE);
    compare(&plain, &scaled, VAE_ENCODE);
    vae_model_free(&scaled.model);
    return bed_close(&plain);
}
