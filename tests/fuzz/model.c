/*
 * Fuzzes the description of a model's weights. The input changes one of the
 * small test models: it changes dimensions, removes tensors, adds metadata and
 * puts a config.json beside the file. The model must either be refused with a
 * text, or its information must be consistent and its programs must build.
 *
 *   byte 0     the model. From 32 on: only its decoder or its encoder. From 64
 *              on: Wan2.1 with one block each and a quarter of the channels,
 *              which opens fastest
 *   then       0 TENSOR TENSOR DIM VALUE VALUE   sets a dimension
 *              1 TENSOR TENSOR                   removes a tensor
 *              2 KEY N text                      adds metadata
 *              3 text                            config.json, up to the end
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

#include <jansson.h>
#include <sanitizer/asan_interface.h>

#include "../files/folder.h"
#include "fuzz.h"
#include "fuse.h"
#include "model.h"

enum { MOST_TENSORS = 512, MOST_META = 8, MOST_TEXT = 256 };
/* The size of all tensors. The file is sparse. */
#define MOST_BYTES (UINT64_C(1) << 36)

/*
 * The allocator of the JSON reader, which needs thousands of small blocks for
 * each file. A pool takes a tenth of the time of the sanitizer's allocator. The
 * bytes around a block are poisoned, and so is a freed block. The pool does not
 * reuse a block for the same input. At the end of an input all blocks must be
 * free.
 */
static _Alignas(16) uint8_t pool[64 << 20];
static size_t pool_used, pool_blocks;

enum { AROUND = 16 }; /* bytes before each block; the first ones are its size */

static void *
pool_take(size_t n)
{
    const size_t whole = AROUND + (n + AROUND) / 16 * 16;
    uint8_t *at = pool + pool_used;
    if (n > sizeof pool || whole > sizeof pool - pool_used)
        abort(); /* more than a small file may need */
    pool_used += whole;
    pool_blocks++;
    ASAN_UNPOISON_MEMORY_REGION(at, sizeof n);
    memcpy(at, &n, sizeof n);
    ASAN_POISON_MEMORY_REGION(at, whole);
    ASAN_UNPOISON_MEMORY_REGION(at + AROUND, n);
    return at + AROUND;
}

static void
pool_give(void *block)
{
    if (block == NULL)
        return;
    uint8_t *at = (uint8_t *) block - AROUND;
    size_t n;
    if (__asan_address_is_poisoned(block))
        abort(); /* a double free */
    ASAN_UNPOISON_MEMORY_REGION(at, sizeof n);
    memcpy(&n, at, sizeof n);
    ASAN_POISON_MEMORY_REGION(at, AROUND + n);
    pool_blocks--;
}

static void
pool_end(void)
{
    if (pool_blocks != 0)
        abort(); /* a leak */
    pool_used = 0;
}

typedef struct Told {
    const uint8_t *at, *end;
    VaeTensorOut tensors[MOST_TENSORS];
    size_t n_tensors;
    VaeMetadata meta[MOST_META];
    char text[MOST_META][MOST_TEXT];
    size_t n_meta;
} Told;

static void
clean(void)
{
    unlink(path_of("m.safetensors"));
    unlink(path_of("config.json"));
    rmdir(folder);
}

/* The models of the tests. */
static VaeTensorFile *bases[3];

static void
open_bases(void)
{
    static const char *const names[] = {"wan21", "seedvr2", "taehv/taew2_1"};
    for (int i = 0; i < 3; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s/weights.safetensors", FUZZ_VECTORS,
                 names[i]);
        if (vae_tensor_file_open(path, &bases[i], NULL) != VAE_OK)
            abort();
    }
}

static unsigned
byte(Told *t)
{
    return t->at < t->end ? *t->at++ : 0;
}

static unsigned
two_bytes(Told *t)
{
    const unsigned high = byte(t);
    return high << 8 | byte(t);
}

/* Returns true if the model that byte 0 chooses does not have the tensor. */
static bool
is_left_out(unsigned which, const char *name)
{
    static const char *const deeper[] = {"encoder.downsamples.",
                                         "decoder.upsamples."};
    if (which >= 32 && which < 64)
        return strncmp(name, which & 4 ? "decoder." : "encoder.", 8) == 0;
    for (int i = 0; which >= 64 && i < 2; i++) {
        const size_t n = strlen(deeper[i]);
        if (strncmp(name, deeper[i], n) == 0 && strncmp(name + n, "0.", 2) != 0)
            return true;
    }
    return false;
}

static void
copy_base(Told *t, unsigned which)
{
    const VaeTensorFile *file = bases[which < 64 ? which % 3 : 0];
    for (size_t i = 0; i < vae_tensor_file_count(file); i++) {
        const VaeTensorInfo *info = vae_tensor_file_at(file, i);
        if (is_left_out(which, info->name))
            continue;
        VaeTensorOut *out = &t->tensors[t->n_tensors++];
        *out = (VaeTensorOut){.name = info->name, .n_dims = info->n_dims};
        for (int k = 0; k < info->n_dims; k++)
            out->dims[k] = which >= 64 && info->dims[k] >= 16
                               ? info->dims[k] / 4
                               : info->dims[k];
    }
}

static void
set_metadata(Told *t)
{
    static const char *const keys[] = {"norm_num_groups",  "scaling_factor",
                                       "vae.latents_mean", "vae.latents_std",
                                       "latents_mean",     "vae.latent_space",
                                       "vae.variant",      "vae.names"};
    const unsigned key = byte(t) % 8, n = byte(t);
    char *text = t->text[key];
    for (unsigned i = 0; i < n; i++)
        text[i] = (char) (1 + byte(t) % 127);
    text[n] = '\0';
    for (size_t i = 0; i < t->n_meta; i++)
        if (t->meta[i].key == keys[key])
            return;
    t->meta[t->n_meta++] = (VaeMetadata){keys[key], text};
}

static void
change(Told *t)
{
    const unsigned what = byte(t) % 3;
    if (what == 2) {
        set_metadata(t);
        return;
    }
    VaeTensorOut *out = &t->tensors[two_bytes(t) % t->n_tensors];
    if (what == 0) {
        const unsigned dim = byte(t);
        out->dims[dim % VAE_MAX_DIMS] = two_bytes(t);
        if (dim % VAE_MAX_DIMS >= (unsigned) out->n_dims)
            out->n_dims = (int) (dim % VAE_MAX_DIMS);
    } else if (t->n_tensors > 1) {
        *out = t->tensors[--t->n_tensors];
    }
}

/* The header, to which the functions below append. */
typedef struct Text {
    char *at, *end;
} Text;

static void
put(Text *to, const char *text)
{
    const size_t n = strlen(text);
    if (n >= (size_t) (to->end - to->at))
        abort();
    memcpy(to->at, text, n + 1);
    to->at += n;
}

static void
put_number(Text *to, uint64_t n)
{
    char digits[24], *first = digits + sizeof digits - 1;
    *first = '\0';
    do
        *--first = (char) ('0' + n % 10);
    while (n /= 10);
    put(to, first);
}

/* Appends a JSON string. */
static void
put_string(Text *to, const char *text)
{
    put(to, "\"");
    for (; *text != '\0'; text++) {
        const char plain[] = {*text, '\0'};
        char escaped[8];
        snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned) *text);
        put(to, *text < ' ' || *text == '"' || *text == '\\' ? escaped : plain);
    }
    put(to, "\"");
}

/* Appends the entry of a tensor whose data begins at *end, and advances *end.
 * Returns false if the data would exceed the size of the file. */
static bool
put_tensor(Text *to, const VaeTensorOut *tensor, uint64_t *end)
{
    const uint64_t begin = *end;
    uint64_t bytes = 2;
    put(to, ",\"");
    put(to, tensor->name);
    put(to, "\":{\"dtype\":\"F16\",\"shape\":[");
    for (int k = 0; k < tensor->n_dims; k++) {
        bytes *= (uint64_t) tensor->dims[k]; /* 16 bits each */
        if (bytes > MOST_BYTES)
            return false;
        put(to, k > 0 ? "," : "");
        put_number(to, (uint64_t) tensor->dims[k]);
    }
    *end += bytes;
    put(to, "],\"data_offsets\":[");
    put_number(to, begin);
    put(to, ",");
    put_number(to, *end);
    put(to, "]}");
    return *end <= MOST_BYTES;
}

static bool
put_header(Text *to, const Told *t, uint64_t *bytes)
{
    put(to, "{\"__metadata__\":{");
    for (size_t i = 0; i < t->n_meta; i++) {
        put(to, i > 0 ? "," : "");
        put_string(to, t->meta[i].key);
        put(to, ":");
        put_string(to, t->meta[i].value);
    }
    put(to, "}");
    for (size_t i = 0; i < t->n_tensors; i++)
        if (!put_tensor(to, &t->tensors[i], bytes))
            return false;
    put(to, "}");
    return true;
}

/* The data is a hole in the file, because opening a model reads no data. */
static bool
write_model(const Told *t)
{
    static struct {
        uint64_t length;
        char text[MOST_TENSORS * 256];
    } begin;
    Text to = {begin.text, begin.text + sizeof begin.text};
    uint64_t bytes = 0;
    if (!put_header(&to, t, &bytes))
        return false;
    begin.length = (uint64_t) (to.at - begin.text);
    const size_t n = sizeof begin.length + begin.length;
    const int fd = open(path_of("m.safetensors"),
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, &begin, n) != (ssize_t) n ||
        ftruncate(fd, (off_t) (n + bytes)) != 0 || close(fd) != 0)
        abort();
    return true;
}

static void
check_model(const VaeModelInfo *info)
{
    if (info->latent_channels < 1 ||
        info->latent_channels > VAE_MAX_LATENT_CHANNELS || info->spatial < 1 ||
        info->temporal < 1 ||
        info->decoder_tensors + info->encoder_tensors != info->tensor_count)
        abort();
    for (int i = 0; i < info->latent_channels; i++)
        if (!(info->std[i] > 0) || info->mean[i] - info->mean[i] != 0)
            abort();
}

/* Builds the programs that a stream of the model would run, for any width. */
static void
build_program(VaeModel *model, VaeDirection direction, bool first)
{
    const int side =
        direction == VAE_DECODE ? 2 : 2 * vae_model_info(model)->spatial;
    VaeCarrySet carries = {0};
    VaeProgram *program;
    if (vae_model_build(model,
                        &(VaeBuildParams){.direction = direction,
                                          .first = first,
                                          .steps = first ? 1 : 2,
                                          .height = side,
                                          .width = side,
                                          .act = VAE_TYPE_BF16,
                                          .sum = VAE_TYPE_F32,
                                          .carries = &carries},
                        &program, NULL) != VAE_OK)
        abort();
    const VaeFusions all = {
        .upsample = true, .winograd = true, .norm_carry = true};
    if (!vae_program_fuse(program, program, all, (VaeCuts){1, 3}) ||
        !vae_program_plan(program) || program->arena == 0)
        abort();
    vae_program_free(&program);
    vae_carry_set_free(&carries);
}

static void
open_model(bool first)
{
    VaeError error = {0};
    VaeModel *model;
    const VaeStatus status =
        vae_model_open(path_of("m.safetensors"), NULL, &model, &error);
    if ((status == VAE_OK) != (model != NULL) ||
        (status != VAE_OK && strlen(error.message) < 20))
        abort();
    if (status == VAE_OK) {
        const VaeModelInfo *info = vae_model_info(model);
        check_model(info);
        if (info->has_decoder)
            build_program(model, VAE_DECODE, first);
        if (info->has_encoder)
            build_program(model, VAE_ENCODE, first);
    }
    vae_model_free(&model);
}

static void
write_config(const Told *t)
{
    FILE *f = fopen(path_of("config.json"), "wb");
    const size_t n = (size_t) (t->end - t->at);
    if (f == NULL || fwrite(t->at, 1, n, f) != n || fclose(f) != 0)
        abort();
}

/* Uses a file system in memory if there is one. */
static void
make_folder(void)
{
    const char *const parents[] = {"/dev/shm", P_tmpdir};
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/vae-fuzz-XXXXXX", parents[i]);
        if (mkdtemp(folder) != NULL) {
            atexit(clean);
            return;
        }
    }
    abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Told t = {.at = data, .end = data + size};
    if (folder[0] == '\0') {
        make_folder();
        open_bases();
        json_set_alloc_funcs(pool_take, pool_give);
    }
    copy_base(&t, byte(&t));
    bool config = false;
    while (t.at < t.end && !config) {
        config = *t.at % 4 == 3;
        if (config)
            t.at++;
        else
            change(&t);
    }
    if (config)
        write_config(&t);
    if (write_model(&t))
        open_model(size % 2);
    if (config)
        unlink(path_of("config.json"));
    pool_end();
    return 0;
}
