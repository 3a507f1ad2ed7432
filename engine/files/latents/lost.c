/*
 * lost.c: what a file of latents states and frames have no place for.
 */
#include <stdio.h>

#include "vae-private/tensors.h"

bool
vae_latents_lost(const VaeTensorFile *file, const char *out,
                 bool keeps_orientation, char *text, size_t size)
{
    const bool times = vae_tensor_file_find(file, "latent_times") != NULL;
    const bool turned =
        !keeps_orientation &&
        vae_tensor_file_metadata(file, "vae.tag.image-orientation") != NULL;
    const char *and = times && turned ? " and " : "";
    if (!times && !turned)
        return false;
    snprintf(text, size,
             "%s states %s%s%s, which %s lost in %s; "
             "pipelines/latents-to-video.sh %s%s%s",
             vae_tensor_file_name(file), times ? "times of its own" : "", and,
             turned ? "an orientation" : "", times ? "are" : "is", out,
             times ? "keeps the times" : "", and,
             turned ? "turns the pictures" : "");
    return true;
}
