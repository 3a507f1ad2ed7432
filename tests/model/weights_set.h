/*
 * weights_set.h: the tensors of a small golden model, to be changed, written
 * and opened.
 */
#ifndef WEIGHTS_SET_H
#define WEIGHTS_SET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../scoped.h"
#include "vae-private/stream.h"

#define MAX_TENSORS 3000

typedef struct Set {
    VaeTensorFile *files[2];
    VaeTensorOut out[MAX_TENSORS];
    char names[MAX_TENSORS][160];
    size_t n, n_names;
    VaeMetadata meta[8];
    size_t n_meta;
} Set;

/* The set of all tests, and the folder into which it is written. */
extern Set set;
extern char folder[];
extern int failures;
extern char warned[300]; /* the last warning of a stream */

void check(bool good, const char *what, const char *detail);

void clear_set(void);
/* The path of its weights in VAE_TEST_VECTORS; valid until the next call. */
const char *golden(const char *model);
/* Fills the set with them. */
void load(const char *model);
/* Adds the tensors of one more model, with a prefix. */
void add_model(const char *model, const char *prefix);
/* Writes the set; returns the path. */
const char *write_set(void);
void drop_prefix(const char *prefix);
VaeTensorOut *find(const char *name);
/* Gives each tensor the name that it has in a naming of the network. */
void rename_set(const char *arch, int naming);
/* Writes prefix before each name. */
void add_prefix(const char *prefix);
/* Adds a tensor of one number. */
void add_tensor(const char *name);

/* Writes config.json beside it; NULL removes that. */
void write_config(const char *text);

/* Opening the set fails with all these words. */
#define WORDS(...)                                                             \
    (const char *[])                                                           \
    {                                                                          \
        __VA_ARGS__, NULL                                                      \
    }
void expect_error(const char *what, VaeStatus status, const char *const *words);
/* Opening it as a variant, or NULL, gives this network, or an error with this
 * word. For networks of equal shapes: without a variant and metadata, the
 * reason must say that one was assumed. */
void open_variant(const char *what, const char *variant, VaeStatus status,
                  const char *arch_or_word);
/* Five frames of 16x24 pixels, times scale, of two latents; NULL and *error on
 * failure. */
float *decode(const char *path, int scale, VaeError *error);
/* The same to pictures of another format, of `pixel` bytes a pixel. */
bool decode_to(const char *path, int scale, VaePixels pixels, int pixel,
               void *out, VaeError *error);
/* Two latents of 16x2x3 of five frames of 16x24 pixels. */
bool encode_from(const char *path, VaePixels pixels, int pixel, void *in,
                 float *out, VaeError *error);
/* The fingerprint of a file: 64 digits and a NUL. */
void fingerprint(const char *path, char *out);

/* test_choice.c */
void test_choice(void);
/* test_fingerprint.c */
void test_fingerprint(void);
/* test_memory.c */
void test_memory(void);

/* test_layers.c */
void test_layers(void);
/* test_image.c */
void test_image(void);

/* test_missing.c */
void test_missing(void);

/* test_ltx2.c */
void test_ltx2(void);
/* test_hunyuan.c */
void test_hunyuan(void);

#endif
