/*
 * os.c: what all systems share.
 */
#include "vae-private/os.h"

bool
vae_os_is_kind(const char *path, VaeFileKind kind)
{
    VaeFileFacts facts;
    return vae_os_facts(path, &facts) && facts.kind == kind;
}

bool
vae_os_is_file(const char *path, const VaeFileFacts *file)
{
    VaeFileFacts facts;
    return vae_os_facts(path, &facts) && facts.volume == file->volume &&
           facts.number == file->number;
}
