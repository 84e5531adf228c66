/* The header in the XCFramework, and what Swift does not see of it: constants that are made of others. */
#include <ember.h>

static const uint64_t EMBER_SWIFT_SEED_RANDOM = EMBER_SEED_RANDOM;
