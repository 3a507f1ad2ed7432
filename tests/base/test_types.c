/*
 * Compares the conversions of element types with a model in double precision,
 * for every 16-bit value and for floats at and near every rounding boundary.
 */
#include <math.h>

#include "base.h"
#include "vae-private/settings.h"

typedef struct Format {
    VaeType type;
    const char *name;
    int fraction, bias; /* bits of fraction; exponent of 1.0 */
} Format;

static const Format formats[] = {
    {VAE_TYPE_F16, "f16", 10, 15},
    {VAE_TYPE_BF16, "bf16", 7, 127},
};

static uint32_t
float_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float
bits_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Returns the value of 16 bits by the definition of the format. */
static double
model_value(const Format *f, uint32_t h)
{
    const int exponent = (int) (h & 0x7fff) >> f->fraction;
    const int fraction = (int) h & ((1 << f->fraction) - 1);
    const int top = 0x7fff >> f->fraction;
    double v = exponent == 0 ? ldexp(fraction, 1 - f->bias - f->fraction)
                             : ldexp((1 << f->fraction) + fraction,
                                     exponent - f->bias - f->fraction);
    if (exponent == top)
        v = fraction == 0 ? INFINITY : NAN;
    return h & 0x8000 ? -v : v;
}

/* Rounds v, which is not NaN, to the nearest value of 16 bits, ties to even. */
static uint32_t
model_round(const Format *f, double v)
{
    const uint32_t sign = signbit(v) ? 0x8000 : 0;
    const uint32_t infinity = (0x7fffu >> f->fraction) << f->fraction;
    const double a = fabs(v);
    if (isinf(a))
        return sign | infinity;
    int exponent = a == 0 ? -2000 : ilogb(a);
    if (exponent < 1 - f->bias)
        exponent = 1 - f->bias;
    /* Whole units in the last place; rint() is nearest even. */
    const double units = rint(ldexp(a, f->fraction - exponent));
    uint32_t h = (uint32_t) units;
    if (units >= ldexp(1, f->fraction))
        h += (uint32_t) (exponent + f->bias - 1) << f->fraction;
    return sign | (h > infinity ? infinity : h);
}

static bool
is_nan16(const Format *f, uint32_t h)
{
    return isnan(model_value(f, h));
}

static void
check_all_to_float(const Format *f)
{
    static uint16_t in[65536];
    static float out[65536];
    size_t bad = 0;
    for (uint32_t h = 0; h < 65536; h++)
        in[h] = (uint16_t) h;
    vae_type_to_float(out, in, f->type, 65536);
    for (uint32_t h = 0; h < 65536; h++) {
        const double want = model_value(f, h);
        if (isnan(want) ? !isnan(out[h])
                        : float_bits(out[h]) != float_bits((float) want))
            bad++;
    }
    check(bad == 0, "%s to float: %zu of 65536 differ", f->name, bad);

    static uint16_t back[65536];
    bad = 0;
    vae_type_from_float(back, f->type, out, 65536);
    for (uint32_t h = 0; h < 65536; h++)
        bad += is_nan16(f, h) ? !is_nan16(f, back[h]) : back[h] != h;
    check(bad == 0, "%s to float and back: %zu of 65536 differ", f->name, bad);
}

/* Tests floats halfway between two neighbours and next to it, in both signs. */
static void
check_boundaries(const Format *f)
{
    enum { AROUND = 5 };
    size_t bad = 0, n = 0;
    const uint32_t infinity = (0x7fffu >> f->fraction) << f->fraction;
    for (uint32_t h = 0; h < infinity; h++) {
        const double low = model_value(f, h);
        const double high = h + 1 == infinity
                                ? low + (low - model_value(f, h - 1))
                                : model_value(f, h + 1);
        const float middle = (float) ((low + high) / 2);
        float in[2 * AROUND];
        uint16_t out[2 * AROUND];
        for (int i = 0; i < AROUND; i++) {
            in[i] = bits_float(float_bits(middle) + (uint32_t) (i - 2));
            if (float_bits(middle) < 2 || isnan(in[i]))
                in[i] = middle;
            in[AROUND + i] = -in[i];
        }
        vae_type_from_float(out, f->type, in, 2 * AROUND);
        for (int i = 0; i < 2 * AROUND; i++, n++)
            bad += out[i] != model_round(f, in[i]);
    }
    check(bad == 0, "%s from float at boundaries: %zu of %zu differ", f->name,
          bad, n);
}

/* Tests floats over all bit patterns, in the vector loop and in its remainder.
 */
static void
check_spread(const Format *f)
{
    enum { STEP = 4099, CHUNK = 1000 };
    static float in[CHUNK];
    static uint16_t out[CHUNK];
    size_t bad = 0, n = 0;
    uint64_t bits = 0;
    while (bits <= UINT32_MAX) {
        size_t used = 0;
        for (; used < CHUNK && bits <= UINT32_MAX; bits += STEP)
            in[used++] = bits_float((uint32_t) bits);
        vae_type_from_float(out, f->type, in, used);
        for (size_t i = 0; i < used; i++, n++)
            bad += isnan(in[i]) ? !is_nan16(f, out[i])
                                : out[i] != model_round(f, in[i]);
    }
    check(bad == 0, "%s from float: %zu of %zu differ", f->name, bad, n);
}

/* Tests each count near the block size, at unaligned addresses. Nothing may be
 * written past the end. */
static void
check_counts(VaeType type)
{
    enum { MOST = 200 };
    const size_t size = vae_type_size(type);
    uint8_t src[MOST * 4 + 1], dst[(MOST + 1) * 4 + 1], want[MOST * 4];
    float values[MOST], again[MOST + 1];
    bool good = true;
    for (size_t i = 0; i < MOST; i++)
        values[i] = (float) (i % 256);
    vae_type_from_float(want, type, values, MOST);
    memcpy(src + 1, want, MOST * size);
    for (size_t n = 0; n <= MOST; n++) {
        again[n] = -7;
        vae_type_to_float(again, src + 1, type, n);
        good = good && memcmp(again, values, n * 4) == 0 && again[n] == -7;
        memset(dst, 0xa5, sizeof dst);
        vae_type_from_float(dst + 1, type, values, n);
        good = good && memcmp(dst + 1, want, n * size) == 0;
        good = good && dst[0] == 0xa5 && dst[1 + n * size] == 0xa5;
    }
    check(good, "%s: 0 to %d elements at odd addresses", vae_type_name(type),
          MOST);
}

static void
check_u8(void)
{
    static const struct {
        float in;
        uint8_t out;
    } cases[] = {
        {-INFINITY, 0}, {-1, 0},       {-0.0f, 0},        {0.5f, 0},
        {1.5f, 2},      {2.5f, 2},     {2.5000002f, 3},   {254.5f, 254},
        {255, 255},     {255.5f, 255}, {1e30f, 255},      {INFINITY, 255},
        {NAN, 0},       {1e-40f, 0},   {127.49999f, 127},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        /* Once in a full block, and once alone in the remainder. */
        float in[65];
        uint8_t out[65];
        for (int k = 0; k < 65; k++)
            in[k] = cases[i].in;
        vae_type_from_float(out, VAE_TYPE_U8, in, 65);
        check(out[0] == cases[i].out && out[64] == cases[i].out,
              "u8 from %g is %d, found %d", (double) cases[i].in, cases[i].out,
              out[0]);
    }
}

static void
check_words(void)
{
    VaeBackendKind backend = VAE_BACKEND_REF;
    VaePrecision precision = VAE_PRECISION_TF32;
    VaeNormalization norm = VAE_RAW;
    bool good = true;
    for (VaeBackendKind k = VAE_BACKEND_AUTO; k < VAE_BACKEND_KINDS; k++)
        good = good && vae_backend_parse(vae_backend_name(k), &backend) &&
               backend == k;
    for (VaePrecision k = VAE_PRECISION_AUTO; k <= VAE_PRECISION_BF16; k++)
        good = good && vae_precision_parse(vae_precision_name(k), &precision) &&
               precision == k;
    for (VaeNormalization k = VAE_NORMALIZED; k <= VAE_RAW; k++)
        good = good &&
               vae_normalization_parse(vae_normalization_name(k), &norm) &&
               norm == k;
    check(good, "words of backends, precisions and normalizations");
    good = !vae_backend_parse("gpu", &backend) && backend == VAE_BACKEND_REF &&
           !vae_precision_parse("", &precision) &&
           precision == VAE_PRECISION_BF16 &&
           !vae_normalization_parse(NULL, &norm) && norm == VAE_RAW;
    check(good, "unknown words are refused and leave the value alone");
    good = true;
    for (VaeStatus s = VAE_OK; s <= VAE_ERR_CANCELLED; s++)
        good = good && strcmp(vae_status_name(s), "unknown status") != 0;
    check(good, "every status has a name");
}

static void
check_memory_limits(void)
{
    static const struct {
        const char *word;
        size_t bytes;
        double share;
    } good[] = {{"auto", 0, 0},
                {"12G", (size_t) 12 << 30, 0},
                {"7.5GiB", (size_t) 15 << 29, 0},
                {"800m", (size_t) 800 << 20, 0},
                {"1000000", 1000000, 0},
                {"1k", 1024, 0},
                {"75%", 0, 0.75},
                {"100%", 0, 1}};
    static const char *const bad[] = {"",    "-1",   "0",    "0%",  "101%",
                                      "12X", "G",    "12 G", "5%x", "nan",
                                      "inf", "1e30", "12GB", "0.5", "autos"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        size_t bytes = 1;
        double share = 2;
        check(vae_memory_limit_parse(good[i].word, &bytes, &share) &&
                  bytes == good[i].bytes && share == good[i].share,
              "memory limit %s: %zu bytes, share %g", good[i].word, bytes,
              share);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        size_t bytes = 1;
        double share = 2;
        check(!vae_memory_limit_parse(bad[i], &bytes, &share) && bytes == 1 &&
                  share == 2,
              "memory limit '%s' is refused", bad[i]);
    }
}

/* Each value that a row allows goes through text and member, and the values
 * beside them are refused. */
static void
check_setting(const VaeSetting *s)
{
    VaeStreamParams p = VAE_INIT(VaeStreamParams);
    const bool number = s->kind == VAE_SETTING_NUMBER && s->most < INT64_MAX;
    char text[24];
    p.width = p.height = 16;
    for (int i = 0; s->words && i <= s->most; i++)
        check(s->words[i].word && vae_setting_parse(s, &p, s->words[i].word) &&
                  vae_setting_get(s, &p) == i &&
                  vae_settings_check(&p, NULL) == VAE_OK,
              "%s: word %d", s->name, i);
    check(!s->words || !s->words[s->most + 1].word, "%s: last word", s->name);
    for (int64_t k = -1; number && k <= 1; k += 2) {
        const int64_t end = k < 0 ? s->least : s->most;
        snprintf(text, sizeof text, "%lld", (long long) end);
        check(vae_setting_parse(s, &p, text) && vae_setting_get(s, &p) == end &&
                  vae_settings_check(&p, NULL) == VAE_OK,
              "%s: %s is allowed", s->name, text);
        snprintf(text, sizeof text, "%lld", (long long) (end + k));
        check(!vae_setting_parse(s, &p, text) && vae_setting_get(s, &p) == end,
              "%s: %s is refused", s->name, text);
        if (end + k > INT32_MIN && end + k < INT32_MAX) {
            vae_setting_set(s, &p, end + k);
            check(vae_settings_check(&p, NULL) == VAE_ERR_ARGUMENT,
                  "%s: the check refuses %s", s->name, text);
        }
    }
    check(!vae_setting_parse(s, &p, "?") && !vae_setting_parse(s, &p, ""),
          "%s: no value", s->name);
    check(!(s->option || s->property) || s->sentence, "%s: a sentence",
          s->name);
}

static void
check_settings(void)
{
    VaeStreamParams p = VAE_INIT(VaeStreamParams);
    const VaeSetting *s;
    for (int i = 0; (s = vae_setting_at(i)); i++) {
        check_setting(s);
        check(vae_setting_find(s->name) == s, "%s is found", s->name);
    }
    vae_settings_init(&p);
    check(p.device == -1 && !p.low_latency, "presets");
    s = vae_setting_find("look_ahead");
    check(vae_setting_parse(s, &p, "0") && p.low_latency &&
              vae_setting_parse(s, &p, "-1") && !p.low_latency,
          "a look-ahead is a low latency");
    s = vae_setting_find("seed");
    check(vae_setting_parse(s, &p, "18446744073709551615") &&
              p.seed == UINT64_MAX &&
              !vae_setting_parse(s, &p, "18446744073709551616") &&
              !vae_setting_parse(s, &p, "-1"),
          "seeds");
}

static void
check_messages(void)
{
    VaeError e = {0};
    check(vae_fail(NULL, VAE_ERR_READ, "x") == VAE_ERR_READ, "error NULL");
    vae_fail(&e, VAE_ERR_SIZE, "inner");
    vae_fail(&e, VAE_ERR_FORMAT, "outer: %s", e.message);
    check(e.status == VAE_ERR_FORMAT && strcmp(e.message, "outer: inner") == 0,
          "a message can hold the one before");
    vae_fail(&e, VAE_ERR_FORMAT, "a\nb\x1b[1m \xff\xc3\xa9\xc3\xed\xa0\x80\n");
    check(strcmp(e.message, "a b?[1m ?\xc3\xa9????") == 0,
          "one line of UTF-8: %s", e.message);
    vae_fail(&e, VAE_ERR_FORMAT, "a\u202eb\u2028c\u2066d\u200fe\u2013\u2065");
    check(strcmp(e.message, "a???b???c???d???e\u2013\u2065") == 0,
          "no other direction of text: %s", e.message);
    char text[3000];
    memset(text, 'x', sizeof text);
    text[1022] = '\xc3';
    text[1023] = '\xa9';
    text[2999] = '\0';
    vae_fail(&e, VAE_ERR_FORMAT, "%s", text);
    check(strlen(e.message) == 1023 && e.message[1022] == '?',
          "a long message is cut");
    text[2000] = '\0';
    vae_mismatch(&e, VAE_ERR_SIZE, "t", "%s {%d of %s}, not {=%s}%s", text, 3,
                 "{}", "{=4}", "!");
    check(strcmp(e.tensor, "t") == 0 && strcmp(e.found, "3 of {}") == 0 &&
              strcmp(e.expected, "{=4}") == 0,
          "the parts of a sentence: \"%s\", \"%s\"", e.found, e.expected);
    vae_mismatch(&e, VAE_ERR_SIZE, NULL, "{=%d} of %s, found {%s}", 5, e.tensor,
                 e.expected);
    check(strcmp(e.message, "5 of t, found {=4}") == 0 &&
              strcmp(e.expected, "5") == 0 && !e.tensor[0],
          "the sentence without its marks: %s", e.message);
    VaeError all;
    check(vae_fail_within(&all, &e, "%s: ", "file") == VAE_ERR_SIZE &&
              strcmp(all.message, "file: 5 of t, found {=4}") == 0 &&
              strcmp(all.found, "{=4}") == 0,
          "an error within another: %s", all.message);
}

/* The names of types in files. */
static void
check_file_types(void)
{
    static const char *const rows[][2] = {{"<f4", "float32"},
                                          {"|u1", "uint8"},
                                          {"<i8", "int64"},
                                          {"|b1", "bool"},
                                          {"<c16", "complex128"},
                                          {">f8", "big-endian float64"},
                                          {"F16", "float16"},
                                          {"BF16", "bfloat16"},
                                          {"U8", "uint8"},
                                          {"I64", "int64"},
                                          {"BOOL", "bool"},
                                          {"C64", "complex64"},
                                          {"F8_E4M3", "F8_E4M3"},
                                          {"|O", "|O"},
                                          {"<U3", "<U3"},
                                          {"", ""},
                                          {"f4", "f4"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[40];
        check(strcmp(vae_type_words(rows[i][0], text, sizeof text),
                     rows[i][1]) == 0,
              "the type %s is %s", rows[i][0], text);
    }
}

void
test_types(void)
{
    check_file_types();
    for (size_t i = 0; i < COUNT(formats); i++) {
        check_all_to_float(&formats[i]);
        check_boundaries(&formats[i]);
        check_spread(&formats[i]);
    }
    check_counts(VAE_TYPE_F32);
    check_counts(VAE_TYPE_F16);
    check_counts(VAE_TYPE_BF16);
    check_counts(VAE_TYPE_U8);
    check_u8();
    check_words();
    check_memory_limits();
    check_settings();
    check_messages();
}
