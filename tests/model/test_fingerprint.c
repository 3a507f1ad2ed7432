/*
 * test_fingerprint.c: what changes the fingerprint of weights.
 */
#include "weights_set.h"

/* Values beside the tensors change the fingerprint too, if they are not those
 * of the file without them. */
static void
test_fingerprint_stated(const char *plain)
{
    static const struct {
        VaeMetadata stated;
        bool same;
    } rows[] = {
        {{"scaling_factor", "0.9152"}, true},
        {{"scaling_factor", "0.9153"}, false},
        {{"norm_num_groups", "4"}, false},
        {{"latents_mean", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"}, true},
        {{"latents_mean", "[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,1]"}, false},
        {{"latents_std", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"}, false},
    };
    char other[65], what[96];
    load("seedvr2");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const VaeMetadata *m = &rows[i].stated;
        const bool groups = strcmp(m->key, "norm_num_groups") == 0;
        set.meta[groups ? 0 : 1] = *m;
        set.n_meta = groups ? 1 : 2;
        fingerprint(write_set(), other);
        snprintf(what, sizeof what, "%s %s: %s", m->key, m->value,
                 rows[i].same ? "the same fingerprint" : "another one");
        check(other[0] && (strcmp(plain, other) == 0) == rows[i].same, what,
              other);
        set.meta[0] = (VaeMetadata){"norm_num_groups", "8"};
    }
}

void
test_fingerprint(void)
{
    char plain[65], other[65];
    fingerprint(golden("seedvr2"), plain);
    check(strlen(plain) == 64 && strspn(plain, "0123456789abcdef") == 64,
          "a fingerprint has 64 digits", plain);
    load("seedvr2");
    for (size_t i = 0; i < set.n / 2; i++) { /* another order in the file */
        const VaeTensorOut t = set.out[i];
        set.out[i] = set.out[set.n - 1 - i];
        set.out[set.n - 1 - i] = t;
    }
    fingerprint(write_set(), other);
    check(strcmp(plain, other) == 0, "the order in the file is nothing to it",
          other);
    VaeTensorOut *t = find("decoder.conv_out.bias");
    float changed[3];
    memcpy(changed, t->data, sizeof changed);
    ((uint8_t *) changed)[11] ^= 1;
    t->data = changed;
    fingerprint(write_set(), other);
    check(other[0] && strcmp(plain, other) != 0, "one bit changes it", other);
    test_fingerprint_stated(plain);
}
