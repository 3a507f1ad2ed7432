/*
 * library.c: the version of oneDNN, and the processor as oneDNN sees it.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>

#include "dnnl.h"
#include "vae-private/os.h"

const char *
vae_dnnl_word(VaeDnnlStatus status)
{
    switch ((dnnl_status_t) status) {
    case dnnl_success:
        return "success";
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "unimplemented";
    case dnnl_runtime_error:
        return "runtime error";
    default:
        return "error";
    }
}

void
vae_dnnl_version(char *out, size_t size)
{
    const dnnl_version_t *v = dnnl_version();
    snprintf(out, size, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
}

/* oneDNN for Windows uses AMX wherever the processor has it, also in a process
 * that may not. The variable of oneDNN has precedence. */
static void
leave_out_amx(void)
{
#ifdef __x86_64__
    char *set = vae_os_environment("ONEDNN_MAX_CPU_ISA");
    if (!set && !vae_os_allow_amx())
        dnnl_set_max_cpu_isa(dnnl_cpu_isa_avx512_core_bf16);
    free(set);
#endif
}

bool
vae_dnnl_usable(char *why, size_t size)
{
    char version[40];
    leave_out_amx();
    vae_dnnl_version(version, sizeof version);
    if (dnnl_version()->major != DNNL_VERSION_MAJOR) {
        snprintf(why, size, "%s is loaded, this was built with %d.%d", version,
                 DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
        return false;
    }
    if (dnnl_engine_get_count(dnnl_cpu) == 0) {
        snprintf(why, size, "%s was built without a CPU engine", version);
        return false;
    }
    return true;
}

/* The constants of ISAs have these meanings only on x86. */
static bool
has_isa(unsigned isa)
{
#ifdef __x86_64__
    return ((unsigned) dnnl_get_effective_cpu_isa() & isa) == isa;
#else
    return false;
#endif
}

bool
vae_dnnl_has_bf16(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core_bf16);
}

bool
vae_dnnl_has_amx(void)
{
    return has_isa(dnnl_cpu_isa_avx512_core_amx);
}
