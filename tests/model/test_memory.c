/*
 * test_memory.c: a model whose weights are in the memory of the caller.
 */
#include "weights_set.h"

typedef struct Holder {
    int released;
    const VaeTensorInfo *instead; /* of tensor 3 */
    bool dirty;                   /* a description did not begin empty */
} Holder;

static bool
describe(void *user, size_t i, VaeTensorInfo *out)
{
    static char name[160];
    Holder *h = user;
    if (i >= set.n)
        return false;
    const VaeTensorOut *t = &set.out[i];
    h->dirty |= !out->supported || out->name || out->n_dims || out->data;
    snprintf(name, sizeof name, "%s", t->name); /* the library copies it */
    out->name = name;
    out->type = t->type;
    out->n_dims = t->n_dims;
    memcpy(out->dims, t->dims, sizeof t->dims);
    out->data = t->data;
    if (i == 3 && h->instead)
        *out = *h->instead;
    return true;
}

static void
release(void *user)
{
    ((Holder *) user)->released++;
}

static VaeStatus
open_set(Holder *h, const char *config, VaeModel **out, VaeError *error)
{
    VaeTensorList source = VAE_INIT(VaeTensorList);
    source.name = "mine";
    source.tensor = describe;
    source.release = release;
    source.user = h;
    source.metadata = set.meta;
    source.n_metadata = set.n_meta;
    source.config = config;
    return vae_model_open_tensors(&source, NULL, out, error);
}

static void
refused(const char *what, const VaeTensorInfo *instead, const char *config,
        VaeStatus status, const char *const *words)
{
    Holder h = {.instead = instead};
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    bool good = open_set(&h, config, &model, &error) == status && !model &&
                h.released == 0;
    for (int i = 0; good && words[i]; i++)
        good = strstr(error.message, words[i]) != NULL;
    check(good, what, error.message);
}

static void
test_faults(void)
{
    const float one = 1;
    refused("a tensor without a name", &(VaeTensorInfo){.supported = true},
            NULL, VAE_ERR_ARGUMENT, WORDS("mine: tensor 3 has no name"));
    refused("without data",
            &(VaeTensorInfo){
                .name = "t", .supported = true, .n_dims = 1, .dims = {2}},
            NULL, VAE_ERR_ARGUMENT,
            WORDS("tensor \"t\" has no data, expected its address"));
    refused("of 9 dimensions",
            &(VaeTensorInfo){
                .name = "t", .supported = true, .n_dims = 9, .data = &one},
            NULL, VAE_ERR_ARGUMENT, WORDS("has 9 dimensions, expected 0 to 8"));
    refused("of a negative size",
            &(VaeTensorInfo){.name = "t",
                             .supported = true,
                             .n_dims = 1,
                             .dims = {-2},
                             .data = &one},
            NULL, VAE_ERR_FORMAT, WORDS("has a dimension of -2"));
    refused("of a size that overflows",
            &(VaeTensorInfo){.name = "t",
                             .supported = true,
                             .n_dims = 2,
                             .dims = {INT64_MAX, 8},
                             .data = &one},
            NULL, VAE_ERR_FORMAT, WORDS("has 2^64 bytes or more"));
    refused("of no VaeType",
            &(VaeTensorInfo){.name = "t", .type = 9, .supported = true}, NULL,
            VAE_ERR_ARGUMENT, WORDS("has type 9, expected a VaeType"));
    refused("of a type that the library lacks",
            &(VaeTensorInfo){.name = set.out[3].name, .type_name = "int64"},
            NULL, VAE_ERR_MODEL, WORDS(set.out[3].name));
    refused("whose name appears twice",
            &(VaeTensorInfo){
                .name = set.out[2].name, .supported = true, .data = &one},
            NULL, VAE_ERR_FORMAT, WORDS("appears twice"));
    refused("whose name is no UTF-8",
            &(VaeTensorInfo){.name = "\xff", .supported = true, .data = &one},
            NULL, VAE_ERR_FORMAT, WORDS("tensor 3 is no UTF-8"));
    refused("a config that is no JSON", NULL, "{", VAE_ERR_FORMAT,
            WORDS("mine: config: "));
    set.n_meta = 0;
    refused("a config without what the weights need", NULL, "{}", VAE_ERR_MODEL,
            WORDS("mine: ", "norm_num_groups"));
    refused("no source of metadata at all", NULL, NULL, VAE_ERR_MODEL,
            WORDS("norm_num_groups"));
}

void
test_memory(void)
{
    char in_file[65], in_memory[65] = "";
    Holder h = {0};
    VaeModel *model = NULL;
    VaeStream *stream = NULL;
    VaeError error = {0};
    fingerprint(golden("seedvr2"), in_file);
    load("seedvr2");
    check(open_set(&h, NULL, &model, &error) == VAE_OK &&
              vae_model_fingerprint(model, in_memory, &error) == VAE_OK &&
              strcmp(in_file, in_memory) == 0 && !h.dirty &&
              strcmp(vae_model_info(model)->path, "mine") == 0,
          "weights in memory are those of the file", error.message);
    check(vae_model_tensor(model, 0)->data ==
              find(vae_model_tensor(model, 0)->name)->data,
          "they are not copied", NULL);
    const VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                                    .backend = VAE_BACKEND_REF,
                                    .width = 16,
                                    .height = 16};
    vae_stream_new(model, &params, &stream, &error);
    vae_model_free(&model);
    check(stream && h.released == 0, "a stream keeps them", error.message);
    vae_stream_free(&stream);
    check(h.released == 1, "they are released once, at the end", NULL);
    set.n_meta = 0;
    check(open_set(&h, "{\"norm_num_groups\": 8}", &model, &error) == VAE_OK,
          "a config states what metadata do not", error.message);
    vae_model_free(&model);
    load("seedvr2");
    test_faults();
    VaeTensorList none = VAE_INIT(VaeTensorList);
    check(vae_model_open_tensors(&none, NULL, &model, &error) ==
                  VAE_ERR_ARGUMENT &&
              strstr(error.message, "source.tensor"),
          "a source without a function", error.message);
}
