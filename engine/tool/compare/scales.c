/*
 * scales.c: latents of two normalizations, as normalized ones.
 */
#include <string.h>

#include "compare.h"
#include "vae-private/spaces.h"

/* The normalization of the latents in both files, as decode reads them. The
 * options are for files that do not state it. */
typedef struct Scales {
    VaeNormalization n[2];
    bool assumed[2]; /* neither the file nor its kind tells it */
    const char *notes[2];
    const char *space; /* of both; NULL: not known, or not the same */
    bool differ;
} Scales;

static Scales
find_scales(const Options *o, const View v[2])
{
    const char *spaces[2];
    Scales s = {.differ = false};
    for (int i = 0; i < 2; i++) {
        VaeLatentClip c = VAE_INIT(VaeLatentClip);
        VaeLatentOptions first = latent_options(o);
        first.batch_index = 0;
        if (vae_latent_clip_find(v[i].file, &first, &c, NULL) != VAE_OK ||
            strcmp(c.tensor, v[i].tensor->name) != 0)
            return s;
        const bool told =
            c.normalization_stated || c.normalization == VAE_COMFYUI;
        const bool by_option = !told && o->normalization_given;
        s.assumed[i] = !told && !by_option;
        s.notes[i] = by_option ? "" : normalization_note(&c);
        s.n[i] = by_option ? o->params.normalization : c.normalization;
        spaces[i] = c.space ? c.space : o->space;
    }
    s.space = spaces[0] ? spaces[0] : spaces[1];
    if (spaces[1] && strcmp(s.space, spaces[1]) != 0)
        s.space = NULL;
    for (int i = 0; i < 2 && vae_space_find(s.space); i++)
        s.n[i] = vae_space_normalization(s.space, s.n[i]);
    s.differ = s.n[0] != s.n[1];
    return s;
}

/* Makes the raw side normalized. False if the statistics are not known: those
 * of some spaces are in the weights. */
static bool
same_scale(const Options *o, const Scales *s, View v[2])
{
    const VaeSpace *space = vae_space_find(s->space);
    if (!space || (!space->std && space->factor <= 0) ||
        view_latents(o, v, NULL) != VAE_OK || !same_shape(v) ||
        v->rows > COMPARE_ROWS || (space->std && v->rows != space->channels))
        return false;
    View *raw = &v[s->n[0] != VAE_RAW];
    raw->scaled = true;
    vae_space_statistics(s->space, (int) raw->rows, raw->mean, raw->std);
    return true;
}

static void
print_scales(const Scales *s, const View v[2], const char *rest)
{
    printf("the latents are %s in %s%s and %s in %s%s, %s\n",
           vae_normalization_name(s->n[0]), v[0].path, s->notes[0],
           vae_normalization_name(s->n[1]), v[1].path, s->notes[1], rest);
}

int
compare_scaled(const Options *o, View v[2])
{
    const Scales s = find_scales(o, v);
    const bool converted = s.differ && same_scale(o, &s, v);
    if (s.differ && !converted && !s.assumed[0] && !s.assumed[1]) {
        print_names(v);
        printf(" DIFFERENT SCALES: ");
        print_scales(&s, v,
                     "and the statistics that convert them are not known: "
                     "decode both to compare them");
        return EXIT_DIFFERS;
    }
    const int code = compare_numbers(o, v);
    if (v[0].tensor->type == VAE_TYPE_F64 || v[1].tensor->type == VAE_TYPE_F64)
        printf("  float64 is compared as float32\n");
    if (s.differ) {
        printf("  ");
        print_scales(&s, v,
                     converted ? "and are compared as normalized ones"
                               : "and are compared as they are: the statistics "
                                 "that convert them are not known");
    }
    return code;
}
