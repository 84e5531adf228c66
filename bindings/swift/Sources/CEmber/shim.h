/* The header that belongs to the library: the one that pkg-config or -I names, else the one of this repository. */
#if __has_include(<ember.h>)
#include <ember.h>
#else
#include "../../../../include/ember.h"
#endif

/* Swift sees constants, and no macros that are made of others. */
static const uint64_t EMBER_SWIFT_SEED_RANDOM = EMBER_SEED_RANDOM;
