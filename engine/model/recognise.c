/*
 * recognise.c: finds the networks in a file, and takes one of them.
 */
#include <stdio.h>
#include <string.h>

#include "files.h"
#include "model.h"
#include "vae-private/spaces.h"

#define MAX_SPATIAL 64 /* larger factors come from a broken file */

/* Fails for a network that is known, but not here; others have like names. */
static VaeStatus
check_known(const VaeModel *m, VaeError *error)
{
    if (!vae_model_has_prefix(
            m, "decoder.mid_block.resnets.0.norm1.norm_layer.") &&
        (!vae_model_has_prefix(m, "encoder.norm_out.weight") ||
         !vae_model_has_prefix(m, "encoder.mid_block.resnets.0.conv1.conv.")))
        return VAE_OK;
    return vae_fail(error, VAE_ERR_MODEL,
                    "%s: these are the weights of the full VAE of CogVideoX, "
                    "which gst-vae does not have; taecvx decodes and encodes "
                    "the same latent space",
                    m->path);
}

/* Sets *found if the tensors of m->file are those of a network. */
static VaeStatus
recognise_tensors(VaeModel *m, bool *found, VaeError *error)
{
    const VaeStatus status = check_known(m, error);
    if (status != VAE_OK)
        return status;
    const bool decoder = vae_model_has_prefix(m, "decoder.");
    const bool encoder = vae_model_has_prefix(m, "encoder.");
    for (int i = 0; vae_archs[i]; i++) {
        if (!vae_model_set_arch(m, vae_archs[i], decoder, encoder))
            return vae_fail(error, VAE_ERR_MEMORY, "%s: out of memory",
                            m->path);
        VaeError why = {0}, stated = {0};
        VaeRecognise r = vae_recognise_params(m);
        vae_model_read_stated(m, &stated);
        *found = m->arch->recognise(&r, &why);
        if (!*found)
            continue;
        if (why.status == VAE_OK)
            why = stated;
        if (why.status == VAE_OK)
            vae_model_check_fixed(m, &why);
        if (why.status != VAE_OK)
            return vae_fail_within(error, &why, "%s: ", m->path);
        if (m->info.spatial > MAX_SPATIAL || m->info.temporal > MAX_SPATIAL)
            return vae_fail(error, VAE_ERR_MODEL,
                            "%s: has the tensor names of %s, but too many "
                            "resamplers",
                            m->path, m->arch->name);
        const char *space =
            vae_tensor_file_metadata(m->file, "vae.latent_space");
        if (space) {
            m->info.space = space;
            /* A stand-in for another VAE uses that VAE's statistics. */
            if (m->info.takes_normalized)
                vae_space_statistics(space, m->info.latent_channels, m->mean,
                                     m->std);
        }
        vae_model_meta_statistics(m, m->info.latent_channels, m->mean, m->std,
                                  &why);
        if (why.status != VAE_OK)
            return vae_pass_on(error, &why);
        return VAE_OK;
    }
    return VAE_OK;
}

/* Makes m->file the whole file again. */
static void
leave_part(VaeModel *m, VaeTensorFile *whole)
{
    if (m->file != whole)
        vae_tensor_file_whole(m->file);
    m->file = whole;
}

/* Makes m->file the tensors with the prefix, and sets *found if they are those
 * of a network. Without a prefix, these are the tensors that have none. */
static VaeStatus
look(VaeModel *m, VaeTensorFile *whole, const char *prefix, bool *found,
     VaeError *error)
{
    char some[VAE_MAX_PREFIX] = "";
    size_t at = 0;
    VaeStatus status = VAE_OK;
    *found = false;
    leave_part(m, whole);
    if (*prefix || vae_tensor_file_next_prefix(whole, &at, some))
        status = vae_tensor_file_part(whole, prefix, &m->file, error);
    if (status != VAE_OK)
        m->file = whole;
    else
        status = recognise_tensors(m, found, error);
    return status;
}

/* The names of some files of one half do not say "encoder." or "decoder.". */
static VaeStatus
look_at_halves(VaeModel *m, VaeTensorFile *whole, bool *found, VaeError *error)
{
    static const char *const halves[] = {"decoder.", "encoder."};
    VaeError first = {0};
    *found = false;
    if (vae_tensor_file_has_prefix(whole, halves[0]) ||
        vae_tensor_file_has_prefix(whole, halves[1]))
        return VAE_OK;
    for (int i = 0; i < 2; i++) {
        VaeError why = {0};
        leave_part(m, whole);
        VaeStatus status =
            vae_tensor_file_half(whole, halves[i], &m->file, &why);
        if (status != VAE_OK)
            m->file = whole;
        else
            status = recognise_tensors(m, found, &why);
        if (status == VAE_OK && *found)
            return status;
        if (status != VAE_OK && first.status == VAE_OK)
            first = why;
    }
    *found = false;
    return first.status == VAE_OK ? VAE_OK : vae_pass_on(error, &first);
}

/* The networks of a file. */
typedef struct Networks {
    char prefix[VAE_MAX_PREFIX]; /* of the one that is taken */
    const char *arch;            /* its name; NULL: there is none */
    char other[VAE_MAX_PREFIX];  /* the variant of another one, or "" */
    VaeListing others;           /* all but the one that is taken */
    bool unclear;                /* the variant, or none, fits one of these */
    VaeError first;              /* of a network that was recognised */
} Networks;

/* True if the variant names the network or its prefix. */
static bool
is_wanted(const VaeModel *m, const char *arch, const char *prefix)
{
    return m->variant && (strcmp(arch, m->variant) == 0 ||
                          (*prefix && strcmp(prefix, m->variant) == 0));
}

static void
add_other(const VaeModel *m, Networks *all, const char *arch,
          const char *prefix)
{
    all->unclear |= !m->variant || is_wanted(m, arch, prefix);
    vae_listing_add(&all->others, *prefix ? "%s (prefix \"%s\")" : "%s%s", arch,
                    prefix);
    snprintf(all->other, sizeof all->other, "%s",
             strcmp(arch, all->arch) != 0 ? arch : prefix);
}

/* Looks for a network under the prefix. Takes the first that the variant names,
 * else the first. */
static VaeStatus
look_for_network(VaeModel *m, VaeTensorFile *whole, const char *prefix,
                 Networks *all, VaeError *error)
{
    VaeError why = {0};
    bool found;
    const VaeStatus status = look(m, whole, prefix, &found, &why);
    if (status == VAE_ERR_MEMORY)
        return vae_fail(error, status, "%s", why.message);
    if (status != VAE_OK && all->first.status == VAE_OK)
        all->first = why;
    if (status != VAE_OK || !found)
        return VAE_OK;
    const char *arch = m->info.arch;
    const bool better = all->arch && !is_wanted(m, all->arch, all->prefix) &&
                        is_wanted(m, arch, prefix);
    if (all->arch && !better) {
        add_other(m, all, arch, prefix);
        return VAE_OK;
    }
    const Networks before = *all;
    all->arch = arch;
    strcpy(all->prefix, prefix);
    if (before.arch)
        add_other(m, all, before.arch, before.prefix);
    return VAE_OK;
}

/* Finds the networks without a prefix and under each that is known. Then looks
 * for further ones under prefixes that are not known, if there is a network, or
 * the variant may name one. */
static VaeStatus
find_networks(VaeModel *m, VaeTensorFile *whole, Networks *all, VaeError *error)
{
    enum { MOST_UNKNOWN = 8 };
    char prefix[VAE_MAX_PREFIX] = "";
    size_t at = 0;
    VaeStatus status;
    do
        status = look_for_network(m, whole, prefix, all, error);
    while (status == VAE_OK && vae_tensor_file_next_prefix(whole, &at, prefix));
    at = 0;
    prefix[0] = '\0';
    for (int i = 0;
         i < MOST_UNKNOWN && (all->arch || m->variant) && status == VAE_OK &&
         vae_tensor_file_next_unknown(whole, &at, prefix);
         i++)
        status = look_for_network(m, whole, prefix, all, error);
    return status;
}

/* Fails because the network is none of the variant that was asked for. */
static VaeStatus
fail_variant(const VaeModel *m, const char *variant, const Networks *all,
             const char *arch, VaeError *error)
{
    return vae_mismatch(
        error, VAE_ERR_MODEL, m->variant ? NULL : "vae.variant",
        "%s: %s {=%s}, but the weights are those of {%s}%s%s%s%s%s%s%s",
        m->path, m->variant ? "the variant is set to" : "vae.variant states",
        variant, arch, *all->prefix ? " (prefix \"" : "", all->prefix,
        *all->prefix ? "\")" : "", all->others.count ? " and " : "",
        all->others.text, all->first.status ? "; " : "", all->first.message);
}

/* Fails if no network takes the variant that the user set, and the file has
 * several. Of one network alone, its own error says more. */
static VaeStatus
check_variant(VaeModel *m, VaeTensorFile *whole, const Networks *taken,
              VaeError *error)
{
    Networks all = {.others = {.most = 3}};
    char *variant = m->variant;
    if (!variant || (taken->arch && is_wanted(m, taken->arch, taken->prefix)))
        return VAE_OK;
    m->variant = NULL;
    const VaeStatus status = find_networks(m, whole, &all, error);
    m->variant = variant;
    if (status != VAE_OK || all.others.count == 0)
        return status;
    all.first = taken->first;
    return fail_variant(m, variant, &all, all.arch, error);
}

/* Adds the place of the network, and what else is in the file, to the reason.
 */
static void
tell_place(VaeModel *m, const VaeTensorFile *whole, const Networks *all)
{
    char by[VAE_REASON], ignored[48] = "", others[600] = "";
    m->several = all->unclear;
    const size_t n =
        vae_tensor_file_count(whole) - vae_tensor_file_count(m->file);
    if (n == 0 && !*all->prefix)
        return;
    if (all->others.count)
        snprintf(others, sizeof others, ", among them those of %s",
                 all->others.text);
    if (*all->other && all->other[strlen(all->other) - 1] == '.')
        snprintf(others + strlen(others), sizeof others - strlen(others),
                 "; to use these, set variant to \"%s\"", all->other);
    else if (*all->other)
        snprintf(others + strlen(others), sizeof others - strlen(others),
                 "; to use %s, set variant to %s", all->other, all->other);
    snprintf(by, sizeof by, "%s", m->info.reason);
    if (n > 0)
        snprintf(ignored, sizeof ignored, ", %s ignored",
                 VAE_COUNTED(n, "other tensor"));
    const int length =
        snprintf(m->reason, sizeof m->reason, "%s; %s%s%s%s%s", by,
                 *all->prefix ? "prefix \"" : "no prefix", all->prefix,
                 *all->prefix ? "\"" : "", ignored, others);
    if (length >= (int) sizeof m->reason)
        strcpy(m->reason + sizeof m->reason - 4, "...");
    m->info.reason = m->reason;
}

/* Looks for the tensors in the whole file, under each prefix, and in a file of
 * one half. */
static VaeStatus
recognise(VaeModel *m, Networks *all, VaeError *error)
{
    VaeTensorFile *whole = m->file;
    bool found = false;
    VaeStatus status = find_networks(m, whole, all, error);
    if (status == VAE_OK)
        status = check_variant(m, whole, all, error);
    if (status == VAE_OK && all->arch) {
        status = look(m, whole, all->prefix, &found, error);
        if (status == VAE_OK)
            tell_place(m, whole, all);
        return status;
    }
    if (status == VAE_OK && all->first.status != VAE_OK)
        return vae_pass_on(error, &all->first);
    if (status == VAE_OK)
        status = look_at_halves(m, whole, &found, error);
    if (status == VAE_OK && !found) {
        leave_part(m, whole);
        return vae_model_unknown(m, error);
    }
    return status;
}

VaeStatus
vae_model_recognise(VaeModel *m, VaeError *error)
{
    Networks all = {.others = {.most = 3}};
    const VaeStatus status = recognise(m, &all, error);
    const char *stated = vae_tensor_file_metadata(m->file, "vae.variant");
    const char *variant = m->variant ? m->variant : stated;
    if (status == VAE_OK && variant && strcmp(variant, m->info.arch) != 0 &&
        !is_wanted(m, m->info.arch, all.prefix))
        return fail_variant(m, variant, &all, m->info.arch, error);
    return status;
}
