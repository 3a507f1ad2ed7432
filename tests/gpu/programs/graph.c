/*
 * graph.c: see graph.h. Linked with --wrap=cudaGraphInstantiate, through which
 * each recorded program goes; so this sees cuDNN's kernels as well as ours,
 * without a profiler.
 */
#include "graph.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The newest graphs: timing a layer records some, too. */
enum { MAX_GRAPHS = 32, MAX_NAMES = 160, NAME = 160 };

typedef struct Graph {
    cudaGraphExec_t exec;
    int kernels, copies, fills, others;
    unsigned long long copied;
    struct {
        char text[NAME];
        int n;
    } names[MAX_NAMES];
    int n_names;
} Graph;

static Graph graphs[MAX_GRAPHS];
static int n_graphs;

typedef CUresult (*GetParams)(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *out);
typedef CUresult (*FuncName)(const char **name, CUfunction function);
typedef CUresult (*KernelName)(const char **name, CUkernel kernel);

cudaError_t __real_cudaGraphInstantiate(cudaGraphExec_t *exec,
                                        cudaGraph_t graph,
                                        unsigned long long flags);
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t *exec,
                                        cudaGraph_t graph,
                                        unsigned long long flags);

/* From the driver that the run time has loaded; there is none to link with. */
static void *
driver_call(const char *name)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
    return driver ? dlsym(driver, name) : NULL;
}

/* The run time does not know the kernels that a library gave to the driver. */
static const char *
name_of(cudaGraphNode_t node)
{
    CUDA_KERNEL_NODE_PARAMS p = {0};
    const char *name = NULL;
    const GetParams params =
        (GetParams) driver_call("cuGraphKernelNodeGetParams_v2");
    const FuncName of_function = (FuncName) driver_call("cuFuncGetName");
    const KernelName of_kernel = (KernelName) driver_call("cuKernelGetName");
    if (!params || params((CUgraphNode) node, &p) != CUDA_SUCCESS)
        return "?";
    if (p.func && of_function)
        of_function(&name, p.func);
    else if (p.kern && of_kernel)
        of_kernel(&name, p.kern);
    return name ? name : "?";
}

static void
count_name(Graph *g, const char *name)
{
    char text[NAME];
    snprintf(text, sizeof text, "%s", name);
    for (char *p = text; *p; p++)
        if (*p == '"' || *p == '\\' || (unsigned char) *p < ' ')
            *p = '_';
    int i = 0;
    while (i < g->n_names && strcmp(g->names[i].text, text) != 0)
        i++;
    if (i == MAX_NAMES)
        return;
    if (i == g->n_names)
        strcpy(g->names[g->n_names++].text, text);
    g->names[i].n++;
}

static void
count_node(Graph *g, cudaGraphNode_t node)
{
    enum cudaGraphNodeType type;
    struct cudaMemcpy3DParms copy;
    if (cudaGraphNodeGetType(node, &type) != cudaSuccess) {
        g->others++;
        return;
    }
    switch (type) {
    case cudaGraphNodeTypeKernel:
        g->kernels++;
        count_name(g, name_of(node));
        break;
    case cudaGraphNodeTypeMemcpy:
        g->copies++;
        if (cudaGraphMemcpyNodeGetParams(node, &copy) == cudaSuccess)
            g->copied += (unsigned long long) copy.extent.width *
                         copy.extent.height * copy.extent.depth;
        break;
    case cudaGraphNodeTypeMemset:
        g->fills++;
        break;
    default:
        g->others++;
    }
}

cudaError_t
__wrap_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                            unsigned long long flags)
{
    size_t n = 0;
    cudaGraphNode_t *nodes = NULL;
    Graph *g = NULL;
    if (cudaGraphGetNodes(graph, NULL, &n) == cudaSuccess && n)
        nodes = malloc(n * sizeof *nodes);
    if (nodes && cudaGraphGetNodes(graph, nodes, &n) == cudaSuccess) {
        g = &graphs[n_graphs++ % MAX_GRAPHS];
        *g = (Graph){0};
        for (size_t i = 0; i < n; i++)
            count_node(g, nodes[i]);
    }
    free(nodes);
    cudaGetLastError(); /* what could not be asked is no failure of the program
                         */
    const cudaError_t code = __real_cudaGraphInstantiate(exec, graph, flags);
    if (g && code == cudaSuccess)
        g->exec = *exec;
    return code;
}

void
graph_tell(VaeRtGraph graph)
{
    const Graph *g = NULL;
    /* An address may be that of an earlier graph, which is gone. */
    for (int i = n_graphs - 1;
         graph && !g && i >= 0 && i >= n_graphs - MAX_GRAPHS; i--)
        if (graphs[i % MAX_GRAPHS].exec == graph)
            g = &graphs[i % MAX_GRAPHS];
    if (!g) {
        printf("null");
        return;
    }
    printf("{\"kernels\": %d, \"copies\": %d, \"copied\": %llu, "
           "\"fills\": %d, \"others\": %d, \"names\": {",
           g->kernels, g->copies, g->copied, g->fills, g->others);
    for (int k = 0; k < g->n_names; k++)
        printf("%s\"%s\": %d", k ? ", " : "", g->names[k].text, g->names[k].n);
    printf("}}");
}
