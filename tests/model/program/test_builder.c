/*
 * test_builder.c: a network whose shapes do not match is refused with an error
 * that names the op, the tensor and both shapes. A correct network is accepted.
 */
#include <stdio.h>
#include <string.h>

#include "model.h"

/* The network under test. x: its input; latents have the shape (t, h, w, 4). */
static const VaeTensor *(*network)(VaeBuilder *b, const VaeTensor *x);

static void
decode(VaeBuilder *b)
{
    vae_output(b, network(b, vae_input(b)));
}

static void
encode(VaeBuilder *b)
{
    vae_output(b, vae_conv(b, "in", vae_input(b), (VaeConv){.c = 4}));
}

static void
preset(VaeRecognise *r)
{
    r->info->latent_channels = 4;
    r->info->spatial = r->info->temporal = 1;
    r->info->decode = (VaeSteps){1, 1, 2, 2};
    r->info->encode = (VaeSteps){1, 1, 1, 1};
    r->info->fps_n = r->info->fps_d = 1;
    r->info->pixel_high = 1;
}

static const VaeArch toy = {
    .name = "toy", .preset = preset, .decode = decode, .encode = encode};

/* ------------------------------------------------------------------ */

static const VaeTensor *
wide(VaeBuilder *b, const char *name, const VaeTensor *x, int c)
{
    return vae_conv(b, name, x, (VaeConv){.c = c});
}

static const VaeTensor *
fits(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 4);
    x = vae_conv(b, "sum", x, (VaeConv){.c = 4, .kt = 3, .add = a});
    x = vae_shortcut(b, "shortcut", x, wide(b, "half", x, 2),
                     (VaeShortcutMove){.kind = VAE_SHORTCUT_DUP});
    return wide(b, "out", x, 3);
}

/* Two frames become one and two again; the first step has one. */
static const VaeTensor *
packs(VaeBuilder *b, const VaeTensor *x)
{
    x = vae_conv(b, "edges", x,
                 (VaeConv){.c = 4, .k = 3, .kt = 3, .pad = VAE_PAD_REPLICATE});
    x = vae_rearrange(b, "pack", x, (VaeMove){.kind = VAE_FOLD_TRQC, .ft = 2});
    x = vae_rearrange(
        b, "unpack", x,
        (VaeMove){.kind = VAE_SHUFFLE_TRQC, .ft = 2, .drop = vae_is_first(b)});
    return wide(b, "out", x, 3);
}

static const VaeTensor *
unpack_channels(VaeBuilder *b, const VaeTensor *x)
{
    return vae_rearrange(b, "unpack", wide(b, "odd", x, 5),
                         (VaeMove){.kind = VAE_SHUFFLE_TRQC, .ft = 2});
}

static const VaeTensor *
sum_shape(VaeBuilder *b, const VaeTensor *x)
{
    return vae_conv(b, "sum", x, (VaeConv){.c = 3, .add = wide(b, "a", x, 4)});
}

static const VaeTensor *
sum_type(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = vae_rms(b, "a", wide(b, "w", x, 3), true, false);
    return vae_conv(b, "sum", x, (VaeConv){.c = 3, .add = a});
}

static const VaeTensor *
sum_narrow(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 3);
    return vae_conv(b, "sum", x, (VaeConv){.c = 3, .narrow = true, .add = a});
}

static const VaeTensor *
sum_input(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 3);
    return vae_conv(b, "sum", a, (VaeConv){.c = 3, .add = a});
}

static const VaeTensor *
read_twice(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 4);
    vae_conv(b, "one", a, (VaeConv){.c = 3, .kt = 3});
    return vae_conv(b, "two", a, (VaeConv){.c = 3, .kt = 3});
}

static const VaeTensor *
output_channels(VaeBuilder *b, const VaeTensor *x)
{
    return wide(b, "out", x, 5);
}

static const VaeTensor *
output_size(VaeBuilder *b, const VaeTensor *x)
{
    return vae_conv(b, "out", x, (VaeConv){.c = 3, .k = 3, .s = 2});
}

static const VaeTensor *
output_frames(VaeBuilder *b, const VaeTensor *x)
{
    x = vae_conv(b, "time", x, (VaeConv){.c = 4, .kt = 2});
    if (!vae_is_first(b))
        x = vae_conv(b, "pool", x, (VaeConv){.c = 4, .kt = 2, .st = 2});
    return wide(b, "out", x, 3);
}

static const VaeTensor *
output_type(VaeBuilder *b, const VaeTensor *x)
{
    return vae_conv(b, "out", x, (VaeConv){.c = 3, .narrow = true});
}

static const VaeTensor *
no_output(VaeBuilder *b, const VaeTensor *x)
{
    (void) wide(b, "out", x, 3);
    return NULL;
}

static const VaeTensor *
open_block(VaeBuilder *b, const VaeTensor *x)
{
    vae_enter(b, "middle");
    return wide(b, "out", x, 3);
}

static const VaeTensor *
closed_twice(VaeBuilder *b, const VaeTensor *x)
{
    vae_enter(b, "middle");
    x = wide(b, "out", x, 3);
    vae_leave(b);
    vae_leave(b);
    return x;
}

/* Weights cannot be generated for an architecture without a preset. */
static int
test_no_preset(void)
{
    VaeArch with = toy;
    VaeModel *model = NULL;
    VaeError error = {0};
    with.preset = NULL;
    network = fits;
    const bool good =
        vae_model_generate_arch(&with, &model, &error) == VAE_ERR_UNSUPPORTED &&
        !model && strstr(error.message, "VaeArch.preset");
    printf("%s no preset: %s\n", good ? "ok" : "FAILED", error.message);
    return !good;
}

static const VaeTensor *
too_many_taps(VaeBuilder *b, const VaeTensor *x)
{
    if (vae_is_first(b))
        x = vae_conv(b, "pool", x, (VaeConv){.c = 4, .kt = 2, .st = 2});
    return wide(b, "out", x, 3);
}

static const VaeTensor *
stride_in_time(VaeBuilder *b, const VaeTensor *x)
{
    if (!vae_is_first(b))
        return vae_conv(b, "pool", x, (VaeConv){.c = 3, .kt = 3, .st = 3});
    return wide(b, "out", x, 3);
}

static const VaeTensor *
shortcut_size(VaeBuilder *b, const VaeTensor *x)
{
    return vae_shortcut(b, "cut", wide(b, "y", x, 3), x,
                        (VaeShortcutMove){VAE_SHORTCUT_DUP, 1, 2});
}

static const VaeTensor *
shortcut_frames(VaeBuilder *b, const VaeTensor *x)
{
    return vae_shortcut(b, "cut", wide(b, "y", x, 3), x,
                        (VaeShortcutMove){VAE_SHORTCUT_AVERAGE, 2, 1});
}

static const VaeTensor *
shortcut_channels(VaeBuilder *b, const VaeTensor *x)
{
    return vae_shortcut(b, "cut", wide(b, "y", x, 3), x,
                        (VaeShortcutMove){VAE_SHORTCUT_AVERAGE, 1, 1});
}

static const VaeTensor *
shortcut_type(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *y = vae_clamp(b, "y", wide(b, "w", x, 4));
    return vae_shortcut(b, "cut", y, x,
                        (VaeShortcutMove){VAE_SHORTCUT_DUP, 1, 1});
}

static const VaeTensor *
carry_frames(VaeBuilder *b, const VaeTensor *x)
{
    if (!vae_is_first(b))
        return vae_conv(b, "time", x, (VaeConv){.c = 3, .kt = 3});
    vae_carry_zero(b, "time", x, 1);
    return wide(b, "out", x, 3);
}

static const VaeTensor *
third_of_channels(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 4);
    return vae_rearrange(b, "time", a,
                         (VaeMove){.kind = VAE_UNFOLD_NEAREST, .ft = 3});
}

/* The convolution delays its output by one frame, but the addend does not. */
static const VaeTensor *
sum_delay(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 3);
    return vae_conv(
        b, "sum", x,
        (VaeConv){.c = 3, .k = 3, .kt = 3, .centred = true, .add = a});
}

/* The uses of tensor `a` in the network below, which adds `sum` to it. */
static struct {
    bool keep, before, as_input, as_addend;
} use;

static const VaeTensor *
kept_sum(VaeBuilder *b, const char *name, const VaeTensor *x,
         const VaeTensor *add)
{
    return vae_conv(b, name, x, (VaeConv){.c = 4, .add = add, .keep = true});
}

static const VaeTensor *
reads_again(VaeBuilder *b, const VaeTensor *x)
{
    const VaeTensor *a = wide(b, "a", x, 4);
    if (use.before)
        x = wide(b, "before", a, 4);
    const VaeTensor *y =
        vae_conv(b, "sum", x, (VaeConv){.c = 4, .add = a, .keep = use.keep});
    if (use.as_input)
        y = kept_sum(b, "input", a, y);
    if (use.as_addend)
        y = kept_sum(b, "addend", y, a);
    return wide(b, "out", y, 3);
}

/* ------------------------------------------------------------------ */

/* Opens the network, which finds all errors. words: a part of the error text,
 * or NULL if the network is correct. */
static int
expect(const VaeTensor *(*forward)(VaeBuilder *, const VaeTensor *),
       const char *words)
{
    VaeError error = {0};
    VaeModel *model;
    network = forward;
    const VaeStatus status =
        vae_model_preset(&toy, true, false, &model, &error);
    vae_model_free(&model);
    const bool good =
        words ? status == VAE_ERR_MODEL && strstr(error.message, words) != NULL
              : status == VAE_OK;
    printf("%s %s: status %d: %s\n", good ? "ok" : "FAILED",
           words ? words : "no error", status, error.message);
    return !good;
}

static int
test_sums_in_place(void)
{
    int failed = expect(reads_again, NULL);
    use.before = true;
    failed += expect(reads_again, NULL);
    use.as_input = true;
    failed += expect(reads_again, "input.cast: a is read after");
    use.as_input = false;
    use.as_addend = true;
    failed += expect(reads_again, "addend: a is read after");
    use.as_input = use.keep = true;
    return failed + expect(reads_again, NULL);
}

/* An architecture sets no field to its default value. */
static int
test_defaults(void)
{
    VaeArch half = toy;
    VaeModel *model;
    VaeError error = {0};
    char name[256] = "";
    half.encode = NULL;
    network = fits;
    if (vae_model_preset(&half, true, true, &model, &error) != VAE_OK) {
        printf("FAILED: without an encoder: %s\n", error.message);
        return 1;
    }
    const VaeModelInfo *info = vae_model_info(model);
    VaeProgram *program;
    const VaeStatus status = vae_model_build(
        model, &(VaeBuildParams){.direction = VAE_ENCODE}, &program, &error);
    const bool good =
        info->has_decoder && !info->has_encoder && status == VAE_ERR_MODEL &&
        strstr(error.message, "toy has no encoder") &&
        strcmp(info->arch, "toy") == 0 &&
        strcmp(info->names, "official") == 0 && info->mean[3] == 0 &&
        info->std[3] == 1 && vae_model_rename(model, "a.weight", name) &&
        strcmp(name, "a.weight") == 0;
    printf("%s defaults: %s\n", good ? "ok" : "FAILED", error.message);
    vae_model_free(&model);
    return !good;
}

static void
preset_without_rate(VaeRecognise *r)
{
    preset(r);
    r->info->fps_n = 0;
}

static void
preset_without_range(VaeRecognise *r)
{
    preset(r);
    r->info->pixel_high = 0;
}

/* An incomplete description is refused. */
static int
test_description(void)
{
    static const struct {
        void (*preset)(VaeRecognise *r);
        const char *words;
    } rows[] = {{preset_without_rate, "toy: info.fps_n is 0"},
                {preset_without_range, "toy: info.pixel_low is 0"}};
    int failed = 0;
    network = fits;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        VaeArch with = toy;
        VaeModel *model;
        VaeError error = {0};
        with.preset = rows[i].preset;
        const bool good = vae_model_preset(&with, true, true, &model, &error) ==
                              VAE_ERR_MODEL &&
                          strstr(error.message, rows[i].words);
        printf("%s description: %s\n", good ? "ok" : "FAILED", error.message);
        vae_model_free(&model);
        failed += !good;
    }
    return failed;
}

/* Generated statistics are usable, whatever the names of their tensors are. */
static int
test_generated_statistics(void)
{
    VaeArch with = toy;
    VaeModel *model;
    VaeError error = {0};
    with.mean = "centre";
    with.std = "spread";
    network = fits;
    bool good = vae_model_generate_arch(&with, &model, &error) == VAE_OK;
    for (int i = 0; i < 4 && good; i++)
        good = model->mean[i] != 0 && model->std[i] > 0.5f;
    printf("%s generated statistics: %s\n", good ? "ok" : "FAILED",
           error.message);
    vae_model_free(&model);
    return !good;
}

int
main(void)
{
    static const struct {
        const VaeTensor *(*forward)(VaeBuilder *, const VaeTensor *);
        const char *words;
    } cases[] = {
        {fits, NULL},
        {packs, NULL},
        {sum_shape, "sum: a is 2x2x2x4 float32, expected 2x2x2x3 float32"},
        {sum_type, "sum: a is 2x2x2x3 bfloat16, expected 2x2x2x3 float32"},
        {sum_narrow, "sum: a is 2x2x2x3 float32, expected 2x2x2x3 bfloat16"},
        {sum_input, "sum: the sum would be written over the input a"},
        {read_twice, "two: another convolution over time reads a, too"},
        {output_channels,
         "output: out is 2x2x2x5 float32, expected 2x2x2x3 float32"},
        {output_size,
         "output: out is 2x1x1x3 float32, expected 2x2x2x3 float32"},
        {output_frames,
         "output: out is 1x2x2x3 float32, expected 2x2x2x3 float32"},
        {output_type,
         "output: out is 2x2x2x3 bfloat16, expected 2x2x2x3 float32"},
        {no_output, "output: no tensor was given"},
        {open_block, ": vae_leave() is missing in middle"},
        {closed_twice, "vae_leave() was called without vae_enter()"},
        {too_many_taps, "pool: input has 1 frames with context, which do not "
                        "fit 2 taps"},
        {stride_in_time, "pool: input has 2 frames with context, which do not "
                         "fit 3 taps and stride 3"},
        {shortcut_size, "cut: y is 2x2x2x3 float32, expected 2x4x4x3 float32"},
        {shortcut_frames,
         "cut: y is 2x2x2x3 float32, expected 1x2x2x3 float32"},
        {shortcut_channels,
         "cut: input is 2x2x2x4 bfloat16, which factors of 1 in "
         "time and 1 in space do not bring to the 3 "
         "channels of y"},
        {shortcut_type, "cut: y is 2x2x2x4 bfloat16, expected 2x2x2x4 float32"},
        {carry_frames, "time: the carry has 1 frames of 2x2x4, but another "
                       "step keeps 2 of 2x2x4"},
        {third_of_channels, "time: a has 4 channels, expected a multiple of 3"},
        {unpack_channels,
         "unpack: odd has 5 channels, expected a multiple of 2"},
        {sum_delay, "sum: the sum is of frames with a delay of 1 and 0 "
                    "frames"}};
    int failed = test_defaults() + test_description() +
                 test_generated_statistics() + test_no_preset();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        failed += expect(cases[i].forward, cases[i].words);
    return (failed + test_sums_in_place()) > 0;
}
