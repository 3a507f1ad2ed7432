/*
 * test_sized.c: accepts shorter and longer structs of a program that was
 * compiled with another version of the headers. Also tests the version numbers.
 */
#include "base.h"
#include "sized.h"
#include "vae-private/stream.h"
#include "vae/vae.h"

#include <stddef.h>

static VaeModel *model;

/*
 * A later version of VaeStreamParams. It has no padding after the last member,
 * because the values of padding bytes are undefined.
 */
typedef struct Longer {
    VaeStreamParams params;
    size_t more;
} Longer;

#define ENDS_WITH(type, last)                                                  \
    static_assert(offsetof(type, last) + sizeof(((type *) NULL)->last) ==      \
                      sizeof(type),                                            \
                  #type " ends in padding")

/* A member that a later version adds must enlarge the struct. */
ENDS_WITH(VaeStreamParams, tile_plan);
ENDS_WITH(VaeModelOptions, variant);
ENDS_WITH(VaeCheckpointParams, before);
ENDS_WITH(VaeLatentOptions, space);

static VaeStatus
plan(const void *params, VaePlan *out, VaeError *error)
{
    return vae_stream_plan(model, params, out, error);
}

static VaeStreamParams
some(void)
{
    return (VaeStreamParams){.struct_size = sizeof(VaeStreamParams),
                             .backend = VAE_BACKEND_REF,
                             .width = 32,
                             .height = 32,
                             .slice_size = 2};
}

/* Checks the parts of an error for a wrong number of bytes. */
static void
check_bytes(const VaeError *error, size_t found, size_t expected,
            const char *after)
{
    char texts[2][48];
    snprintf(texts[0], sizeof texts[0], "%zu", found);
    snprintf(texts[1], sizeof texts[1], "%zu%s", expected, after);
    check_error_parts("the error has both sizes", error, NULL, texts[0],
                      texts[1]);
}

static void
check_params(void)
{
    VaePlan out = VAE_INIT(VaePlan);
    VaeStreamParams p = some();
    Longer longer = {.params = some()};
    VaeError error;
    longer.params.struct_size = sizeof longer;
    check(plan(&p, &out, &error) == VAE_OK && out.slice_size == 2,
          "the library's own size");
    p.struct_size = offsetof(VaeStreamParams, slice_size);
    check(plan(&p, &out, &error) == VAE_OK && out.slice_size == 4,
          "a shorter struct: the members that it lacks are 0");
    check(plan(&longer, &out, &error) == VAE_OK && out.slice_size == 2,
          "a longer struct with zeros behind what is known");
    longer.more = 1;
    check(plan(&longer, &out, &error) == VAE_ERR_ARGUMENT &&
              strstr(error.message, "VaeStreamParams") != NULL,
          "a longer struct that asks for more: %s", error.message);
    check_bytes(&error, sizeof longer, sizeof p, "");
    for (size_t size = 0; size <= SIZE_MAX / 2; size += SIZE_MAX / 2) {
        p.struct_size = size;
        check(plan(&p, &out, &error) == VAE_ERR_ARGUMENT &&
                  strstr(error.message, "VAE_INIT(VaeStreamParams)") != NULL,
              "no size: %s", error.message);
        check_bytes(&error, size, VAE_SIZE_UP_TO(VaeStreamParams, height),
                    " to 65536");
    }
}

static void
check_plan(void)
{
    const VaeStreamParams p = some();
    VaePlan full = VAE_INIT(VaePlan), part = VAE_INIT(VaePlan);
    VaeError error;
    check(plan(&p, &full, &error) == VAE_OK, "a plan");
    part.struct_size = offsetof(VaePlan, slice_size);
    part.slice_size = -7;
    check(plan(&p, &part, &error) == VAE_OK && part.total == full.total &&
              part.slice_size == -7 &&
              part.struct_size == offsetof(VaePlan, slice_size),
          "a shorter plan is filled and nothing behind it");
    part.struct_size = 0;
    check(plan(&p, &part, &error) == VAE_ERR_ARGUMENT &&
              strstr(error.message, "VaePlan") != NULL,
          "a plan without a size: %s", error.message);
}

static void
check_others(void)
{
    const VaeModelOptions options = {.variant = NULL};
    VaeModel *none;
    VaeError error;
    check(vae_model_open("none", &options, &none, &error) == VAE_ERR_ARGUMENT &&
              !none && strstr(error.message, "VaeModelOptions") != NULL,
          "options without a size: %s", error.message);
}

/* An outline has no weights, and the error says so in its parts. */
static void
check_outline(void)
{
    const VaeStreamParams params = {
        .struct_size = sizeof params, .width = 64, .height = 64};
    VaeStream *stream;
    for (int write = 0; write < 2; write++) {
        VaeError e = {0};
        const VaeStatus status =
            write ? vae_model_write(model, "none", VAE_TYPE_F32, &e)
                  : vae_stream_new(model, &params, &stream, &e);
        check(status == VAE_ERR_ARGUMENT &&
                  strcmp(e.found, "an outline") == 0 &&
                  strcmp(e.expected, "weights") == 0,
              "%s: found \"%s\", expected \"%s\"", e.message, e.found,
              e.expected);
    }
}

static void
check_version(void)
{
    check(strcmp(vae_version(), VAE_VERSION_STRING) == 0,
          "the library is of the headers' version: %s", vae_version());
    check(VAE_CHECK_VERSION(0, 1, 0) && VAE_CHECK_VERSION(0, 0, 99) &&
              !VAE_CHECK_VERSION(0, 1, VAE_VERSION_MICRO + 1) &&
              !VAE_CHECK_VERSION(VAE_VERSION_MAJOR + 1, 0, 0),
          "VAE_CHECK_VERSION()");
}

void
test_sized(void)
{
    VaeError error;
    if (vae_model_outline("taew2_1", &model, &error) != VAE_OK) {
        check(false, "%s", error.message);
        return;
    }
    check_params();
    check_plan();
    check_others();
    check_version();
    check_outline();
    vae_model_free(&model);
}
