/*
 * test_missing.c: an error about weights without one of their tensors names
 * this tensor.
 */
#include "weights_set.h"

/* Describes the tensors of the set without one. */
static bool
describe(void *user, size_t i, VaeTensorInfo *out)
{
    const size_t *removed = user;
    const size_t k = i + (i >= *removed);
    if (k >= set.n)
        return false;
    const VaeTensorOut *t = &set.out[k];
    out->name = t->name;
    out->type = t->type;
    out->n_dims = t->n_dims;
    out->data = t->data;
    memcpy(out->dims, t->dims, sizeof t->dims);
    return true;
}

static bool
names_removed(size_t i)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeTensorList list = {.struct_size = sizeof list,
                                .name = "w",
                                .tensor = describe,
                                .user = &i,
                                .metadata = set.meta,
                                .n_metadata = set.n_meta};
    vae_model_open_tensors(&list, NULL, &model, &error);
    const bool good = error.status == VAE_ERR_MODEL &&
                      strstr(error.message, set.out[i].name) &&
                      !strstr(error.message, "of the wrong shape");
    if (!good)
        printf("without %s: %s\n", set.out[i].name, error.message);
    return good;
}

void
test_missing(void)
{
    static const struct {
        const char *model, *dropped; /* the other half */
    } rows[] = {{"taehv/taew2_1", NULL},
                {"taehv/taew2_1", "encoder."},
                {"taehv/taew2_1", "decoder."},
                {"taehv/taew2_2_super", NULL},
                {"taehv/taew2_2_super", "encoder."},
                {"taef2", NULL},
                {"taef2", "encoder."},
                {"hunyuan10", NULL},
                {"ltx2_5_diff", NULL},
                {"ltx2_0", "decoder."},
                {"wan21", NULL}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        size_t named = 0;
        load(rows[k].model);
        if (rows[k].dropped)
            drop_prefix(rows[k].dropped);
        for (size_t i = 0; i < set.n; i++)
            named += names_removed(i);
        check(set.n > 0 && named == set.n,
              "each tensor is named if it is missing", rows[k].model);
    }
}
