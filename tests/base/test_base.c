/*
 * test_base.c: runs the tests of engine/base.
 */
#include "base.h"

int
main(void)
{
    test_types();
    test_memory();
    test_sized();
    test_cgroup();
    test_processor();
    test_sha256();
    return test_end();
}
