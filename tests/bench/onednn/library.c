/*
 * library.c: measures the memory that oneDNN keeps beside the plan's entries.
 *
 *   bench-library ARCH decode|encode PRECISION WxH [FRAMES STRIPS]
 *
 * Plans a stream of one step and creates each planned primitive. It prints a
 * line for each new primitive: the growth of generated code and of malloc()
 * in KiB, the implementation, and the type and size of the weights and of the
 * result. Equal primitives add nothing, because oneDNN keeps one of each. The
 * last line has the sum beside the plan's margin.
 */
#include <malloc.h>
#include <oneapi/dnnl/dnnl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dnnl.h"
#include "vae-private/stream.h"

#if DNNL_VERSION_MAJOR < 3
typedef const dnnl_memory_desc_t *const_dnnl_memory_desc_t;
#endif

/* The names are the linker's. */
const_dnnl_memory_desc_t
__real_dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t pd,
                                    dnnl_query_t what, int index);
const_dnnl_memory_desc_t
__wrap_dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t pd,
                                    dnnl_query_t what, int index);

/* A smaller growth is the bookkeeping of an existing primitive. */
enum { NEW = 12 };

static long sum;

/* Returns the anonymous executable memory in KiB. */
static long
code_now(void)
{
    char line[512], rights[8] = "";
    long kib, code = 0;
    FILE *f = fopen("/proc/self/smaps", "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*[0-9a-f]-%*[0-9a-f] %7s", rights) == 1)
            continue;
        if (sscanf(line, "Anonymous: %ld", &kib) == 1 && strchr(rights, 'x'))
            code += kib;
    }
    if (f)
        fclose(f);
    return code;
}

static long
blocks_now(void)
{
    const struct mallinfo2 m = mallinfo2();
    return (long) ((m.uordblks + m.hblkhd) >> 10);
}

static void
print_dims(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    const VaeDnnlLayout *layout =
        (const VaeDnnlLayout *) __real_dnnl_primitive_desc_query_md(pd, what,
                                                                    0);
    VaeDnnlKey key = {0};
    if (layout)
        vae_dnnl_key(layout, &key);
    for (int i = 0; i < key.n; i++)
        printf("%c%lld", i ? 'x' : ' ', (long long) key.dims[i]);
}

static void
create(const_dnnl_primitive_desc_t pd)
{
    const char *impl = "?";
    dnnl_primitive_t primitive = NULL;
    const long code = code_now(), blocks = blocks_now();
    if (dnnl_primitive_create(&primitive, pd) != dnnl_success)
        exit(3);
    const long code_more = code_now() - code;
    const long blocks_more = blocks_now() - blocks;
    dnnl_primitive_destroy(primitive); /* oneDNN's cache keeps its own */
    sum += code_more + blocks_more;
    if (code_more + blocks_more < NEW)
        return;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &impl);
    printf("%6ld %6ld %s", code_more, blocks_more, impl);
    print_dims(pd, dnnl_query_weights_md);
    print_dims(pd, dnnl_query_dst_md);
    printf("\n");
}

/* The plan calls this once for each primitive, to get its scratch size. */
const_dnnl_memory_desc_t
__wrap_dnnl_primitive_desc_query_md(const_dnnl_primitive_desc_t pd,
                                    dnnl_query_t what, int index)
{
    if (what == dnnl_query_scratchpad_md)
        create(pd);
    return __real_dnnl_primitive_desc_query_md(pd, what, index);
}

int
main(int argc, char **argv)
{
    VaeStreamParams params = {.struct_size = sizeof(VaeStreamParams),
                              .backend = VAE_BACKEND_CPU,
                              .slice_size = 1,
                              .memory_limit = SIZE_MAX};
    VaeModel *model;
    VaePlan plan = VAE_INIT(VaePlan);
    VaeError error;
    if ((argc != 5 && argc != 7) ||
        !vae_precision_parse(argv[3], &params.precision) ||
        sscanf(argv[4], "%dx%d", &params.width, &params.height) != 2) {
        fprintf(stderr, "usage: bench-library ARCH decode|encode PRECISION WxH "
                        "[FRAMES STRIPS]\n");
        return 2;
    }
    params.direction = strcmp(argv[2], "encode") == 0 ? VAE_ENCODE : VAE_DECODE;
    params.frames_at_once = argc == 7 ? atoi(argv[5]) : 0;
    params.strips = argc == 7 ? atoi(argv[6]) : 0;
    VaeStatus status = vae_model_outline(argv[1], &model, &error);
    if (status == VAE_OK)
        status = vae_stream_plan(model, &params, &plan, &error);
    if (status != VAE_OK) {
        fprintf(stderr, "bench-library: %s\n", error.message);
        return 3;
    }
    printf("%.1f MiB, planned %.1f of %.1f\n", (double) sum / 1024,
           (double) plan.library / 1048576, (double) plan.peak / 1048576);
    vae_model_free(&model);
    return 0;
}
