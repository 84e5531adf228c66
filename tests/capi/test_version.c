/* Version and build information. */
#include "check.h"

int main(void)
{
    const char *version = ember_version_string();
    CHECK(version != NULL && *version != '\0');
    CHECK(version == ember_version_string());
    CHECK(strspn(version, "0123456789.") > 0);

    const char *build = ember_build_info();
    CHECK(build != NULL && strstr(build, version) != NULL);
    CHECK(strstr(build, "gpt2") != NULL && strstr(build, "llama") != NULL);
    CHECK(strstr(build, "Q8_0") != NULL);
    CHECK(strchr(build, '\n') == NULL);
    return finish("version");
}
