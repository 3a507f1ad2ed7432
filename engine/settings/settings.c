/*
 * settings.c: the table of the settings of a stream. See
 * vae-private/settings.h.
 */
#include "vae-private/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vae-private/frames.h"
#include "vae-private/status.h"

static const VaeWord directions[] = {
    {"decode", "Latents to frames"}, {"encode", "Frames to latents"}, {0}};

static const VaeWord posteriors[] = {
    [VAE_POSTERIOR_MEAN] = {"mean", "Mean of the distribution"},
    [VAE_POSTERIOR_SAMPLE] =
        {"sample",
         "Random sample that depends only on the seed and the position"},
    {0}};

static const VaeWord nan_policies[] = {
    [VAE_NAN_PASS] = {"pass", "Send the results without a check"},
    [VAE_NAN_FALLBACK] =
        {"fallback",
         "Compute a latent whose numbers overflowed in 16 bits again in fp32; "
         "needs more than twice the memory"},
    [VAE_NAN_ERROR] = {"error", "Stop the stream with an error"},
    {0}};

static const VaeWord spills[] = {
    [VAE_SPILL_AUTO] = {"auto",
                        "Carries that do not fit into the memory of the GPU, "
                        "and then a history"},
    [VAE_SPILL_OFF] = {"off", "No carries"},
    [VAE_SPILL_HOST] = {"host", "All carries, and a history"},
    {0}};

static const VaeWord tilings[] = {
    [VAE_TILES_OFF] = {"off", "No tiles: the output is exact"},
    [VAE_TILES_BLEND] = {"blend",
                         "Tiles that overlap and are blended: not exact"},
    {0}};

static const VaeWord tile_plans[] = {
    [VAE_TILE_PLAN_DIFFUSERS] =
        {"diffusers", "Tiles of 5 latents, one every 3, as diffusers "
                      "has them"},
    [VAE_TILE_PLAN_OFFICIAL] = {"official",
                                "Tiles of 17 latents, one every 12, as the "
                                "official code has them"},
    {0}};

#define MEMBER(member, Kind)                                                   \
    .name = #member, .kind = VAE_SETTING_##Kind,                               \
    .offset = offsetof(VaeStreamParams, member),                               \
    .bytes = sizeof(((VaeStreamParams *) 0)->member)
#define RANGE(Least, Most, Preset)                                             \
    .least = (Least), .most = (Most), .preset = (Preset)
/* The values are those of the words. */
#define WORDS(list, Most) .most = (Most), .words = (list)
#define ELEMENT(Property, Title) .property = (Property), .title = (Title)

static const VaeSetting settings[] = {
    {MEMBER(direction, WORD), WORDS(directions, VAE_ENCODE)},
    {MEMBER(width, NUMBER), RANGE(1, VAE_MAX_SIDE, 0)},
    {MEMBER(height, NUMBER), RANGE(1, VAE_MAX_SIDE, 0)},
    {MEMBER(backend, WORD), WORDS(vae_backend_words, VAE_BACKEND_REF),
     .option = "backend", ELEMENT("backend", "Backend"),
     .sentence = "Backend that computes the network"},
    {MEMBER(device, NUMBER), RANGE(-1, INT_MAX, -1), .option = "device",
     ELEMENT("cuda-device-id", "CUDA Device ID"),
     .sentence = "CUDA device index for the cuda backend (-1 = device 0)"},
    {MEMBER(precision, WORD), WORDS(vae_precision_words, VAE_PRECISION_BF16),
     .option = "precision", ELEMENT("precision", "Precision"),
     .sentence = "Type of the numbers inside the network"},
    {MEMBER(slice_size, NUMBER), RANGE(0, 4096, 0), .option = "slice",
     ELEMENT("slice-size", "Slice Size"),
     .sentence = "Maximum number of latents to compute at once. A larger "
                 "number is faster, but frames leave later; the output is the "
                 "same (0 = the largest of 4, 2, 1 that fits into memory; 1 in "
                 "a live pipeline and for pictures of 1280x720 pixels and "
                 "more)"},
    {MEMBER(memory_limit, MEMORY), .option = "memory-limit",
     ELEMENT("memory-limit", "Memory Limit"),
     .sentence = "Maximum memory for the network: auto (at most 90% of the "
                 "free memory), a size such as 12G, or a part of the free "
                 "memory such as 75%. The output is the same with less "
                 "memory"},
    {MEMBER(frames_at_once, NUMBER), RANGE(0, INT_MAX, 0),
     .option = "frames-at-once",
     .sentence = "Number of frames that the layers at the full frame rate "
                 "compute at once (0 = all of a slice, or fewer if these do "
                 "not fit)"},
    {MEMBER(strips, NUMBER), RANGE(0, 1000, 0), .option = "strips",
     .sentence = "Number of strips of rows in which the inputs of large "
                 "convolutions are computed (1 = whole pictures, 0 = strips "
                 "only if whole pictures do not fit)"},
    {MEMBER(spill, WORD), WORDS(spills, VAE_SPILL_HOST), .option = "spill",
     ELEMENT("spill", "Spill"),
     .sentence = "Which carries (the state of the network between two "
                 "latents) the cuda backend keeps in host memory. This frees "
                 "memory of the GPU and takes time"},
    {MEMBER(tiles, WORD), WORDS(tilings, VAE_TILES_BLEND), .option = "tiles",
     ELEMENT("tiles", "Tiles"),
     .sentence = "Tiles for pictures that do not fit into memory otherwise; "
                 "the output is then not exact"},
    {MEMBER(tile_width, NUMBER), RANGE(0, VAE_MAX_SIDE, 0),
     ELEMENT("tile-width", "Tile Width"),
     .sentence = "Width of tiles in pixels (0 = tile-height). If both are 0, "
                 "tiles are used only if nothing else fits, and are as large "
                 "as the memory allows"},
    {MEMBER(tile_height, NUMBER), RANGE(0, VAE_MAX_SIDE, 0),
     ELEMENT("tile-height", "Tile Height"),
     .sentence = "Height of tiles in pixels (0 = tile-width)"},
    {MEMBER(tile_overlap, NUMBER), RANGE(-1, VAE_MAX_SIDE, 0),
     .option = "tile-overlap", ELEMENT("tile-overlap", "Tile Overlap"),
     .sentence = "Overlap of tiles in pixels (0 = that of the network's own "
                 "pipeline: 1/4 of the shorter side of a tile, for SeedVR2 "
                 "1/8; -1 = no overlap)"},
    {MEMBER(threads, NUMBER), RANGE(0, 1024, 0), .option = "threads",
     ELEMENT("threads", "Threads"),
     .sentence = "Number of threads of the cpu backend (0 = one for each "
                 "logical processor that the process may use)"},
    {MEMBER(normalization, WORD), WORDS(vae_normalization_words, VAE_COMFYUI),
     .option = "normalization", .saved = "vae.normalization",
     .sentence = "Normalization of the latents",
     .automatic = "As the input states, or normalized if it states none"},
    {MEMBER(posterior, WORD), WORDS(posteriors, VAE_POSTERIOR_SAMPLE),
     .option = "posterior", ELEMENT("posterior", "Posterior"),
     .only_encode = true, .saved = "vae.posterior",
     .sentence = "Value to take from the distribution that the network gives; "
                 "networks of the TAEHV family have a mean only"},
    {MEMBER(seed, SEED), .option = "seed", ELEMENT("seed", "Seed"),
     .saved = "vae.seed",
     .sentence =
         "Seed of the noise of posterior=sample, and of that from which "
         "the decoder ltx2.5_diff begins; the same seed gives the same "
         "noise"},
    {MEMBER(deterministic, SWITCH), RANGE(0, 1, 0), .option = "deterministic",
     ELEMENT("deterministic", "Deterministic"), .saved = "vae.deterministic",
     .sentence = "Do not choose algorithms by timing, so that every run gives "
                 "the same bytes"},
    {MEMBER(look_ahead, NUMBER), RANGE(-1, INT_MAX, -1), .option = "look-ahead",
     ELEMENT("look-ahead", "Look Ahead"), .only_decode = true,
     .sentence = "Maximum number of later latents that a frame waits for, if "
                 "the model looks ahead. With fewer, the latency is lower and "
                 "the frames are not exact (-1 = all that the model needs)"},
    {MEMBER(history, NUMBER), RANGE(0, 1 << 20, 0), .option = "history",
     ELEMENT("history", "History"), .saved = "vae.history",
     .sentence = "Number of latents, with its own, that the attention of a "
                 "latent reads, if the model has a history (0 = all so far, "
                 "for which the memory grows). Each number gives other "
                 "results"},
    {MEMBER(tile_plan, WORD), WORDS(tile_plans, VAE_TILE_PLAN_OFFICIAL),
     .option = "tile-plan", ELEMENT("tile-plan", "Tile Plan"),
     .saved = "vae.tile_plan",
     .sentence = "Tiles of latents, if the model is exact only in tiles. Each "
                 "plan gives other results"},
    {MEMBER(nan_policy, WORD), WORDS(nan_policies, VAE_NAN_ERROR),
     .option = "nan-policy", ELEMENT("nan-policy", "NaN Policy"),
     .sentence = "Action to take if numbers overflow inside the network, so "
                 "that its results are NaN or infinite"},
    {MEMBER(low_latency, SWITCH), RANGE(0, 1, 0),
     .sentence = "Do not wait for more latents than look_ahead states"},
    {MEMBER(restarts, SWITCH), RANGE(0, 1, 0),
     .sentence = "Allow to continue a sequence without its earlier latents"},
    {MEMBER(pixels, NUMBER), RANGE(0, VAE_PIXELS_KINDS - 1, 0)},
    {MEMBER(pictures_on_device, NUMBER), RANGE(0, 1, 0),
     .sentence = "Plan no buffers for pictures in host memory (1 = all "
                 "pictures are on the device)"},
    {MEMBER(resume_ms, NUMBER), RANGE(0, INT64_MAX, 0),
     .sentence = "Maximum time in milliseconds that a stream waits for the "
                 "memory of the device, after it was freed (0 = none)"},
};
enum { SETTINGS = sizeof settings / sizeof *settings };

const VaeSetting *
vae_setting_at(int i)
{
    return i < SETTINGS ? &settings[i] : NULL;
}

const VaeSetting *
vae_setting_find(const char *name)
{
    for (int i = 0; i < SETTINGS; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i];
    return NULL;
}

int64_t
vae_setting_get(const VaeSetting *s, const VaeStreamParams *p)
{
    const char *at = (const char *) p + s->offset;
    bool truth;
    int32_t narrow;
    int64_t wide;
    if (s->bytes == sizeof truth) {
        memcpy(&truth, at, sizeof truth);
        return truth;
    }
    if (s->bytes == sizeof narrow) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return wide;
}

void
vae_setting_set(const VaeSetting *s, VaeStreamParams *p, int64_t value)
{
    char *at = (char *) p + s->offset;
    const bool truth = value != 0;
    const int32_t narrow = (int32_t) value;
    if (s->bytes == sizeof truth)
        memcpy(at, &truth, sizeof truth);
    else if (s->bytes == sizeof narrow)
        memcpy(at, &narrow, sizeof narrow);
    else
        memcpy(at, &value, sizeof value);
    /* a stream ignores a look-ahead without low_latency */
    if (s->offset == offsetof(VaeStreamParams, look_ahead))
        p->low_latency = value >= 0;
}

void
vae_settings_init(VaeStreamParams *params)
{
    for (int i = 0; i < SETTINGS; i++)
        vae_setting_set(&settings[i], params, settings[i].preset);
}

static bool
parse_number(const VaeSetting *s, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return !errno && end != text && !*end && *out >= s->least &&
           *out <= s->most;
}

static bool
parse_seed(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = (int64_t) strtoull(text, &end, 10);
    return !errno && *text >= '0' && *text <= '9' && !*end;
}

bool
vae_setting_is_automatic(const VaeSetting *s, const char *text)
{
    return s->automatic && strcmp(text, "auto") == 0;
}

bool
vae_setting_parse(const VaeSetting *s, VaeStreamParams *p, const char *text)
{
    int64_t value = 0;
    switch (s->kind) {
    case VAE_SETTING_MEMORY:
        return vae_memory_limit_parse(text, &p->memory_limit, &p->memory_share);
    case VAE_SETTING_WORD:
        value = vae_setting_is_automatic(s, text)
                    ? s->preset
                    : vae_word_find(s->words, text);
        if (value < 0)
            return false;
        break;
    case VAE_SETTING_SWITCH:
        value = strcmp(text, "true") == 0;
        if (!value && strcmp(text, "false") != 0)
            return false;
        break;
    case VAE_SETTING_SEED:
        if (!parse_seed(text, &value))
            return false;
        break;
    case VAE_SETTING_NUMBER:
        if (!parse_number(s, text, &value))
            return false;
        break;
    }
    vae_setting_set(s, p, value);
    return true;
}

static void
expected_words(const VaeSetting *s, char *out, size_t size)
{
    const VaeWord *words = s->words;
    size_t n = 0;
    if (s->automatic)
        n = (size_t) snprintf(out, size, "auto, ");
    for (int i = 0; words[i].word && n < size; i++)
        n += (size_t) snprintf(out + n, size - n, "%s%s",
                               i == 0              ? ""
                               : words[i + 1].word ? ", "
                                                   : " or ",
                               words[i].word);
}

void
vae_setting_expected(const VaeSetting *s, char *out, size_t size)
{
    if (s->kind == VAE_SETTING_MEMORY)
        snprintf(out, size,
                 "auto, a size such as 12G, or a part of the free memory such "
                 "as 75%%");
    else if (s->kind == VAE_SETTING_SEED)
        snprintf(out, size, "0 to %" PRIu64, UINT64_MAX);
    else if (s->kind == VAE_SETTING_SWITCH)
        snprintf(out, size, "true or false");
    else if (s->words)
        expected_words(s, out, size);
    else if (s->most >= INT_MAX)
        snprintf(out, size, "%" PRId64 " or more", s->least);
    else
        snprintf(out, size, "%" PRId64 " to %" PRId64, s->least, s->most);
}

VaeStatus
vae_settings_check(const VaeStreamParams *p, VaeError *error)
{
    char expected[128];
    for (int i = 0; i < SETTINGS; i++) {
        const VaeSetting *s = &settings[i];
        if (s->kind != VAE_SETTING_NUMBER && s->kind != VAE_SETTING_WORD)
            continue;
        const int64_t value = vae_setting_get(s, p);
        if (value >= s->least && value <= s->most)
            continue;
        vae_setting_expected(s, expected, sizeof expected);
        return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                            "%s {%" PRId64 "}, expected {=%s}", s->name, value,
                            expected);
    }
    if (p->memory_share >= 0 && p->memory_share <= 1)
        return VAE_OK;
    return vae_mismatch(error, VAE_ERR_ARGUMENT, NULL,
                        "memory_share {%g}, expected {=0 to 1}",
                        p->memory_share);
}
