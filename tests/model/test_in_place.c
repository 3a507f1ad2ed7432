/*
 * test_in_place.c: a network that reads a tensor after a sum was written over
 * it is refused when its program is built; one that keeps the tensor, or reads
 * it before, is not.
 */
#include <stdio.h>
#include <string.h>

#include "model.h"

/* What the network below does with the tensor `a` that `sum` is added to. */
static struct {
    bool keep, before, as_input, as_addend;
} use;

static const VaeTensor *
one(VaeBuilder *b, const char *name, const VaeTensor *x, const VaeTensor *add)
{
    return vae_conv(b, name, x, (VaeConv){.c = 4, .add = add, .keep = true});
}

static void
decode(VaeBuilder *b)
{
    const VaeTensor *x = vae_input(b);
    const VaeTensor *a = one(b, "a", x, NULL);
    if (use.before)
        x = one(b, "before", a, NULL);
    const VaeTensor *y =
        vae_conv(b, "sum", x, (VaeConv){.c = 4, .add = a, .keep = use.keep});
    if (use.as_input)
        y = one(b, "input", a, y);
    if (use.as_addend)
        y = one(b, "addend", y, a);
    vae_output(b, vae_conv(b, "out", y, (VaeConv){.c = 3}));
}

static bool
rename_same(int naming, const char *name, char *buffer)
{
    return snprintf(buffer, 256, "%s", name) < 256;
}

static void
preset(VaeRecognise *r)
{
    r->info->arch = "in-place";
    r->info->latent_channels = 4;
    r->info->spatial = r->info->temporal = 1;
    r->info->decode = (VaeSteps){1, 1, 1, 1};
}

/* reader: the op that the error names, or NULL where it is no error. */
static int
expect(const char *reader)
{
    static const VaeArch arch = {.name = "in-place",
                                 .data_size = 1,
                                 .rename = rename_same,
                                 .preset = preset,
                                 .decode = decode};
    VaeModel *model;
    VaeProgram *program = NULL;
    VaeCarrySet carries = {0};
    VaeError error = {0};
    VaeStatus status = vae_model_preset(&arch, true, false, &model, &error);
    if (status == VAE_OK)
        status = vae_model_build(model,
                                 &(VaeBuildParams){.direction = VAE_DECODE,
                                                   .steps = 1,
                                                   .height = 2,
                                                   .width = 2,
                                                   .carries = &carries},
                                 &program, &error);
    char want[64] = "";
    if (reader)
        snprintf(want, sizeof want, "%s: a is read after", reader);
    const bool good = (status == VAE_OK) == (reader == NULL) &&
                      (program != NULL) == (reader == NULL) &&
                      strstr(error.message, want) != NULL;
    if (!good)
        printf("FAILED: %s: status %d: %s\n", reader ? reader : "no reader",
               status, error.message);
    vae_program_free(&program);
    vae_carry_set_free(&carries);
    vae_model_free(&model);
    return !good;
}

int
main(void)
{
    int failed = expect(NULL);
    use.before = true;
    failed += expect(NULL);
    use.as_input = true;
    failed += expect("input");
    use.as_input = false;
    use.as_addend = true;
    failed += expect("addend");
    use.as_input = use.keep = true;
    failed += expect(NULL);
    return failed > 0;
}
