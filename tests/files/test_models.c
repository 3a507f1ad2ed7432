/*
 * Opens the weights of a small model from each supported file format. The
 * tensors must be the same, and config.json in a model's folder must give the
 * latent statistics.
 */
#include <limits.h>
#include <sys/stat.h>

#include "folder.h"
#include "torch/archive.h"
#include "vae-private/model.h"

#define WEIGHTS "diffusion_pytorch_model.safetensors"
#define MAX_TENSORS 400

static VaeTensorFile *original;

static const char *
storage_of(VaeType type)
{
    return type == VAE_TYPE_F32   ? "FloatStorage"
           : type == VAE_TYPE_F16 ? "HalfStorage"
                                  : "BFloat16Storage";
}

/* Writes the original in the way torch.save() writes a state_dict(). */
static void
write_torch(const char *name)
{
    static Member members[MAX_TENSORS + 1];
    static char names[MAX_TENSORS + 1][32];
    const size_t n = vae_tensor_file_count(original);
    Bytes p = {0};
    PUT(&p, "\x80\2}(");
    for (size_t i = 0; i < n; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(original, i);
        Tensor tensor = {.storage = storage_of(t->type), .n_dims = t->n_dims};
        int64_t count = 1;
        for (int k = t->n_dims - 1; k >= 0; k--) {
            tensor.dims[k] = t->dims[k];
            tensor.strides[k] = count;
            count *= t->dims[k];
        }
        snprintf(names[i + 1], sizeof names[0], "m/data/%zu", i);
        tensor.key = names[i + 1] + strlen("m/data/");
        tensor.elements = count;
        put_text(&p, t->name);
        put_tensor(&p, &tensor);
        members[i + 1] = (Member){
            names[i + 1], {(uint8_t *) (uintptr_t) t->data, (size_t) t->bytes}};
    }
    PUT(&p, "u.");
    members[0] = (Member){"m/data.pkl", p};
    const Bytes zip = make_zip(members, n + 1, (ZipFault){.zip64 = true});
    write_bytes(name, zip.data, zip.n);
    free(p.data);
    free(zip.data);
}

static void
write_tensors(const char *name, size_t from, size_t to)
{
    static VaeTensorOut out[MAX_TENSORS];
    for (size_t i = from; i < to; i++) {
        const VaeTensorInfo *t = vae_tensor_file_at(original, i);
        out[i] = (VaeTensorOut){.name = t->name,
                                .type = t->type,
                                .n_dims = t->n_dims,
                                .data = t->data};
        memcpy(out[i].dims, t->dims, sizeof t->dims);
    }
    if (vae_tensor_file_write(path_of(name), out + from, to - from, NULL, 0,
                              NULL) != VAE_OK)
        abort();
}

/* Writes the original as two shards with an index. */
static void
write_shards(void)
{
    const size_t n = vae_tensor_file_count(original);
    Bytes index = {0};
    write_tensors("vae/s-1.safetensors", 0, n / 2);
    write_tensors("vae/s-2.safetensors", n / 2, n);
    PUT(&index, "{\"weight_map\": {");
    for (size_t i = 0; i < n; i++) {
        char line[300];
        snprintf(line, sizeof line, "%s\"%s\": \"s-%d.safetensors\"",
                 i > 0 ? ", " : "", vae_tensor_file_at(original, i)->name,
                 i < n / 2 ? 1 : 2);
        put(&index, line, strlen(line));
    }
    PUT(&index, "}}");
    write_bytes("vae/" WEIGHTS ".index.json", index.data, index.n);
    free(index.data);
}

/* Checks that the model has the original's tensors, and this mean and standard
 * deviation of channel 1. */
static void
expect(const char *what, const char *name, float mean, float std)
{
    SCOPED_MODEL VaeModel *model = NULL;
    VaeError error = {0};
    const VaeStatus status =
        vae_model_open(path_of(name), NULL, &model, &error);
    check(status == VAE_OK, "%s %s", what, error.message);
    if (status != VAE_OK)
        return;
    const VaeModelInfo *info = vae_model_info(model);
    size_t same = 0;
    for (size_t i = 0; i < info->tensor_count; i++) {
        const VaeTensorInfo *t = vae_model_tensor(model, i);
        const VaeTensorInfo *o = vae_tensor_file_find(original, t->name);
        same += o != NULL && o->type == t->type && o->bytes == t->bytes &&
                memcmp(o->data, t->data, (size_t) o->bytes) == 0;
    }
    check(same == info->tensor_count && same == vae_tensor_file_count(original),
          "%zu of %zu tensors are the same", same, info->tensor_count);
    check(info->mean[1] == mean && info->std[1] == std,
          "channel 1 has mean %g and std %g, expected %g and %g",
          (double) info->mean[1], (double) info->std[1], (double) mean,
          (double) std);
}

static void
expect_refused(const char *what, VaeStatus expected, const char *words)
{
    VaeError error = {0};
    VaeModel *model;
    const VaeStatus status = vae_model_open(path_of(""), NULL, &model, &error);
    check_refused(what, status, &error, expected, words);
}

/* A config.json is checked as strictly as a weights file. */
static void
test_bad_configs(const char *good)
{
    static char bytes[(1 << 20) + 1];
    static const char huge[] = "{\"latents_std\": [1e99,2,3,4,5,6,7,8,9,10,11,"
                               "12,13,14,15,16]}";
    write_bytes("vae/config.json", good, strlen(good) - 1);
    expect_refused("a config.json cut short", VAE_ERR_FORMAT,
                   "config.json|JSON");
    memset(bytes, '[', sizeof bytes);
    write_bytes("vae/config.json", bytes, 1000);
    expect_refused("a config.json of brackets", VAE_ERR_FORMAT,
                   "config.json|nested");
    memset(bytes, ' ', sizeof bytes);
    memcpy(bytes, good, strlen(good));
    write_bytes("vae/config.json", bytes, sizeof bytes);
    expect_refused("a config.json that is no such thing", VAE_ERR_FORMAT,
                   "config.json|1048577 bytes|1048576");
    write_bytes("vae/config.json", bytes, sizeof bytes - 1);
    expect("a config.json with much room", "", 2, .25f);
    memcpy(bytes, "\xef\xbb\xbf", 3);
    memcpy(bytes + 3, good, strlen(good));
    write_bytes("vae/config.json", bytes, strlen(good) + 3);
    expect("a config.json with a mark of UTF-8", "", 2, .25f);
    write_bytes("vae/config.json", huge, strlen(huge));
    expect_refused("a statistic that float32 does not hold", VAE_ERR_MODEL,
                   "latents_std|16 numbers");
    unlink(path_of("vae/config.json"));
    if (mkfifo(path_of("vae/config.json"), 0600) != 0)
        abort();
    expect_refused("a pipe as config.json", VAE_ERR_READ, "config.json|pipe");
}

static void
remove_all(void)
{
    static const char *const names[] = {
        "vae/s-1.safetensors", "vae/s-2.safetensors",
        "vae/" WEIGHTS ".index.json", "vae/config.json", "w.pth"};
    for (size_t i = 0; i < COUNT(names); i++)
        unlink(path_of(names[i]));
    rmdir(path_of("vae"));
    rmdir(folder);
}

int
main(void)
{
    static const char config[] =
        "{\"latents_mean\": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16],"
        "\"latents_std\": [0.5,0.25,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}";
    char path[PATH_MAX];
    VaeModel *model;
    if (getenv("VAE_TEST_VECTORS") == NULL)
        return 77;
    snprintf(path, sizeof path, "%s/wan21/weights.safetensors",
             getenv("VAE_TEST_VECTORS"));
    if (vae_tensor_file_open(path, &original, NULL) != VAE_OK ||
        vae_tensor_file_count(original) > MAX_TENSORS ||
        vae_model_open(path, NULL, &model, NULL) != VAE_OK) {
        check(false, "%s opens", path);
        return test_end();
    }
    const VaeModelInfo *info = vae_model_info(model);
    const float mean = info->mean[1], std = info->std[1];
    vae_model_free(&model);

    snprintf(folder, sizeof folder, "%s", test_folder());
    write_torch("w.pth");
    expect("weights of PyTorch", "w.pth", mean, std);
    if (mkdir(path_of("vae"), 0777) != 0)
        abort();
    write_shards();
    expect("shards by their index", "vae/" WEIGHTS ".index.json", mean, std);
    write_bytes("vae/config.json", config, strlen(config));
    expect("a folder with shards and config.json", "", 2, .25f);
    test_bad_configs(config);
    remove_all();
    vae_tensor_file_free(&original);
    return test_end();
}
