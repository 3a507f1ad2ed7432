/*
 * files.c: each system call and allocation that reads or writes a file fails
 * once.
 *
 * A failure ends in an error that names the file, or changes nothing. No
 * memory and no file is left behind. The file that was there before is still
 * complete.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../engine/tool/tool.h"
#include "../files/folder.h"
#include "../files/test.h"
#include "files.h"
#include "../refuse.h"
#include "hash.h"
#include "inject.h"
#include "vae-private/model.h"

static const VaeTensorOut tensors[] = {{"x", VAE_TYPE_U8, 1, {2}, "ab"},
                                       {"y", VAE_TYPE_U8, 2, {2, 2}, "cdef"}};
static const VaeMetadata metadata[] = {{"vae.latent_space", "wan2.1"}};

/* The hash of a file; 0 if there is no such file. */
static uint64_t
content(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint64_t hash = VAE_HASH;
    if (f == NULL)
        return 0;
    for (int c; (c = getc(f)) != EOF;)
        hash = vae_hash(hash, &(uint8_t){(uint8_t) c}, 1);
    fclose(f);
    return hash;
}

static int
entries(void)
{
    DIR *d = opendir(folder);
    int n = 0;
    while (d != NULL && readdir(d) != NULL)
        n++;
    closedir(d);
    return n;
}

/* ------------------------------------------------------------------ */

/* A function under test, which reads or writes a path. */
typedef VaeStatus (*Try)(const char *path, VaeError *error);

static VaeStatus
try_read(const char *path, VaeError *error)
{
    SCOPED_FILE VaeTensorFile *file = NULL;
    VaeLatentClip clip = VAE_INIT(VaeLatentClip);
    const VaeLatentOptions options = {.struct_size = sizeof(VaeLatentOptions),
                                      .batch_index = -1};
    const VaeStatus status = vae_tensor_file_open(path, &file, error);
    if (status != VAE_OK)
        return status;
    VaeError none;
    vae_latent_clip_find(file, &options, &clip, &none);
    return VAE_OK;
}

static VaeStatus
try_write(const char *path, VaeError *error)
{
    return vae_tensor_file_write(path, tensors, COUNT(tensors), metadata, 1,
                                 error);
}

static VaeStatus
try_rewrite(const char *path, VaeError *error)
{
    return vae_tensor_file_rewrite(path, tensors, COUNT(tensors), metadata, 1,
                                   error);
}

static VaeModel *model;

static VaeStatus
try_model(const char *path, VaeError *error)
{
    return vae_model_write(model, path, VAE_TYPE_BF16, error);
}

static VaeStatus
try_output(const char *path, VaeError *error)
{
    Output out;
    const OutputHead head = {
        OUTPUT_SAFETENSORS, {tensors, COUNT(tensors), metadata, 1, 0}, NULL};
    VaeStatus status = output_open(&out, path, &head, error);
    if (status == VAE_OK)
        status = output_write(&out, 2, "cdef", 4, error);
    if (status == VAE_OK)
        status = output_write(&out, 0, "ab", 2, error);
    if (status == VAE_OK)
        status = output_commit(&out, error);
    output_close(&out);
    return status;
}

/* ------------------------------------------------------------------ */

static const char *const kinds[] = {"",      "memory",    "files",  "full",
                                    "short", "interrupt", "threads"};

/* A reader may succeed although it could not resolve the path or close a file
 * that it had read. */
static bool
harmless(Try try)
{
    return try == try_read && (strcmp(inject_refused(), "close") == 0 ||
                               strcmp(inject_refused(), "stat") == 0);
}

/* The folder is synced to the disk after the file has its final name. */
static bool
too_late(Try try)
{
    return try == try_rewrite && inject_refused() != NULL &&
           (strcmp(inject_refused(), "fsync") == 0 ||
            strcmp(inject_refused(), "close") == 0);
}

/* Returns the first error after a refusal, or NULL if there is none. */
static const char *
wrong(Inject kind, Try try, VaeStatus status, const VaeError *error,
      const char *path, Live before)
{
    const Live after = inject_live();
    if (after.blocks != before.blocks ||
        after.descriptors != before.descriptors ||
        after.mappings != before.mappings)
        return "something is left behind";
    if ((kind == INJECT_SHORT || kind == INJECT_INTERRUPT) && status != VAE_OK)
        return "an error where to go on was right";
    if (status == VAE_OK && kind == INJECT_MEMORY &&
        strcmp(inject_refused(), "json") != 0)
        return "no error, though there was no memory";
    if (status == VAE_OK &&
        (kind == INJECT_FULL || (kind == INJECT_FILE && !harmless(try))))
        return "no error, though a call was refused";
    if (status == VAE_OK)
        return NULL;
    if (strstr(error->message, strrchr(path, '/') + 1) == NULL)
        return "the error does not name the file";
    if (kind == INJECT_MEMORY && status != VAE_ERR_MEMORY)
        return "the error is not that of memory";
    if (kind == INJECT_FULL && status != VAE_ERR_NO_SPACE)
        return "the error is not that of a full disk";
    if (kind == INJECT_FILE && status != VAE_ERR_READ &&
        status != VAE_ERR_WRITE)
        return "the error is neither of reading nor of writing";
    return NULL;
}

/* want: the hash of the file after success, or 0 if the call only reads it.
 * old: the hash before the call. */
static void
sweep(const char *label, Inject kind, Try try, const char *path, uint64_t old,
      uint64_t want)
{
    int harmless = 0;
    Refusals r = {.refuse = inject_refuse};
    inject_choose(kind);
    while (refuse_next(&r)) {
        VaeError error = {0};
        const int listed = entries();
        const Live before = inject_live();
        refuse_begin(&r);
        const VaeStatus status = try(path, &error);
        const bool refused = refuse_end(&r);
        const char *what = NULL;
        if (refused)
            what = wrong(kind, try, status, &error, path, before);
        const uint64_t now = content(path);
        if (what == NULL && now != (status == VAE_OK ? want : old) &&
            !(now == want && too_late(try)))
            what = "the file is another one";
        if (now != old && old == 0)
            unlink(path);
        else if (now != old)
            write_file(path, "old", 3);
        if (refused && what == NULL && entries() != listed)
            what = "files are left behind";
        harmless += refused && status == VAE_OK;
        if (!refused || what == NULL)
            continue;
        r.wrong++;
        printf("%d (%s): %s: [%s] %s\n", r.n, inject_refused(), what,
               vae_status_name(status), error.message);
    }
    check(r.wrong == 0 && r.refused > 0,
          "%s, %s: %d refused, %d without harm, %d wrong", label, kinds[kind],
          r.refused, harmless, r.wrong);
}

static void
reads(const char *label, const char *path)
{
    const uint64_t is = content(path);
    VaeError error = {0};
    check(try_read(path, &error) == VAE_OK, "%s: %s", label, error.message);
    sweep(label, INJECT_MEMORY, try_read, path, is, is);
    sweep(label, INJECT_FILE, try_read, path, is, is);
}

static void
writes(const char *label, Try try, bool over)
{
    static const Inject all[] = {INJECT_MEMORY, INJECT_FILE, INJECT_FULL,
                                 INJECT_SHORT, INJECT_INTERRUPT};
    const char *path = path_of("out.safetensors");
    VaeError error = {0};
    check(try(path, &error) == VAE_OK, "%s: %s", label, error.message);
    const uint64_t want = content(path);
    unlink(path);
    if (over)
        write_file(path, "old", 3);
    const uint64_t old = content(path);
    for (size_t i = 0; i < COUNT(all); i++)
        sweep(label, all[i], try, path, old, want);
    unlink(path);
}

/* ------------------------------------------------------------------ */

static void
put_npy(void)
{
    size_t size;
    SCOPED_BLOCK uint8_t *npy =
        make_npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}\n",
                 8, &size);
    write_bytes("a.npy", npy, size);
}

static void
read_all(const char *data)
{
    static const char index[] = "{\"weight_map\":{\"x\":\"a.safetensors\","
                                "\"y\":\"b.safetensors\"}}";
    char path[512];
    VaeError error;
    vae_tensor_file_write(path_of("a.safetensors"), tensors, 1, NULL, 0,
                          &error);
    vae_tensor_file_write(path_of("b.safetensors"), tensors + 1, 1, metadata, 1,
                          &error);
    write_bytes("i.json", index, sizeof index - 1);
    put_npy();
    reads("safetensors", path_of("b.safetensors"));
    reads("npy", path_of("a.npy"));
    reads("index", path_of("i.json"));
    snprintf(path, sizeof path, "%s/state.pth", data);
    reads("pth", path);
    snprintf(path, sizeof path, "%s/latent.pt", data);
    reads("pt", path);
    unlink(path_of("a.safetensors"));
    unlink(path_of("b.safetensors"));
    unlink(path_of("i.json"));
    unlink(path_of("a.npy"));
}

int
main(int argc, char **argv)
{
    VaeError error;
    char path[512];
    const char *vectors = getenv("VAE_TEST_VECTORS");
    snprintf(folder, sizeof folder, "%s/vae-faults-XXXXXX", P_tmpdir);
    if (argc != 2 || vectors == NULL || mkdtemp(folder) == NULL) {
        fprintf(stderr, "usage: VAE_TEST_VECTORS=... files DATA\n");
        return 2;
    }
    read_all(argv[1]);
    writes("write", try_write, false);
    writes("write over a file", try_write, true);
    writes("write again", try_rewrite, false);
    writes("write again over a file", try_rewrite, true);
    writes("the tool's output", try_output, false);
    writes("the tool's output over a file", try_output, true);
    snprintf(path, sizeof path, "%s/taehv/taew2_1/weights.safetensors",
             vectors);
    if (vae_model_open(path, NULL, &model, &error) != VAE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    writes("a model's weights", try_model, true);
    vae_model_free(&model);
    rmdir(folder);
    return test_end();
}
