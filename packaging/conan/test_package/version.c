#include <stdio.h>
#include <string.h>
#include "ember.h"

/* The library is that of the header. */
int main(void)
{
    char header[32];
    snprintf(header, sizeof header, "%d.%d.%d", EMBER_VERSION_MAJOR, EMBER_VERSION_MINOR, EMBER_VERSION_PATCH);
    printf("Ember %s\n", ember_version_string());
    return strcmp(header, ember_version_string()) != 0;
}
