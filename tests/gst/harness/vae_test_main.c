#include "vae_test.h"

int
main(int argc, char **argv)
{
    return vae_test_main(argc, argv);
}
