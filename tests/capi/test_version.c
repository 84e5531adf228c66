/* Version and build information. */
#include "check.h"

int main(void)
{
    const char *version = ember_version_string();
    CHECK(version != NULL && *version != '\0');
    CHECK(version == ember_version_string());
    char header[64];
    snprintf(header, sizeof header, "%d.%d.%d", EMBER_VERSION_MAJOR, EMBER_VERSION_MINOR, EMBER_VERSION_PATCH);
    CHECK(strcmp(version, header) == 0);
    CHECK(ember_has_feature("constraints", EMBER_NUL_TERMINATED) == ember_has_feature("hf", EMBER_NUL_TERMINATED));

    const char *build = ember_build_info();
    CHECK(build != NULL && strstr(build, version) != NULL);
    CHECK(strstr(build, "gpt2") != NULL && strstr(build, "llama") != NULL);
    CHECK(strstr(build, "Q8_0") != NULL);
    CHECK(strchr(build, '\n') == NULL);
    return finish("version");
}
