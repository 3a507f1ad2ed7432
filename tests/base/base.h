/*
 * base.h: the tests of engine/base, which are one program.
 */
#ifndef VAE_TEST_BASE_H
#define VAE_TEST_BASE_H

#include "../files/test.h"

void test_types(void);
void test_memory(void);
void test_sized(void);
void test_cgroup(void);
void test_processor(void);
void test_sha256(void);

#endif
