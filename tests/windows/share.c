/* A model and a state on a share that may only be read: \\server\share\…, with slashes of both kinds and with the prefix for long
 * paths. Whether writing is refused is tested first, lest the test proves nothing.
 *
 *   share.exe SERVER/SHARE/FOLDER     the folder holds "Modell für 😀.gguf" */
#include <windows.h>

#include "check.h"

#define NAME "Modell f\xc3\xbcr \xf0\x9f\x98\x80.gguf"

static const wchar_t *wide(const char *path)
{
    static wchar_t out[1024];
    MultiByteToWideChar(CP_UTF8, 0, path, -1, out, 1024);
    return out;
}

/* Whether a file with this name can be made or written. */
static int can_write(const char *path, DWORD how)
{
    HANDLE file = CreateFileW(wide(path), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, how, FILE_ATTRIBUTE_NORMAL, NULL);
    return file != INVALID_HANDLE_VALUE && CloseHandle(file);
}

static void loads(const char *path)
{
    for (int mapped = 0; mapped < 2; mapped++) {
        ember_model_options *options = NULL;
        ember_model *model = NULL;
        ember_context *context = NULL;
        const uint32_t token = 7;
        const float *row = NULL;
        OK(ember_model_options_new(&options, E));
        OK(ember_model_options_set_use_mmap(options, mapped != 0, E));
        if (OK(ember_model_load(path, EMBER_NUL_TERMINATED, options, &model, E)) && OK(ember_context_new(model, NULL, &context, E)) &&
            OK(ember_context_decode(context, &token, NULL, NULL, NULL, 1, E)) && OK(ember_context_logits(context, 0, &row, E)))
            CHECK(row[0] == row[0] && row[0] != 0);
        ember_context_free(context);
        ember_model_release(model);
        ember_model_options_free(options);
    }
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc != 2)
        return 2;
    /* No shells: they eat backslashes. */
    snprintf(path, sizeof path, "//%s/" NAME, argv[1]);
    loads(path);
    for (char *at = path; *at; at++)
        if (*at == '/')
            *at = '\\';
    loads(path);
    CHECK(!can_write(path, OPEN_EXISTING));

    ember_model *model = NULL, *none = NULL;
    ember_context *context = NULL;
    char other[1100];
    snprintf(other, sizeof other, "\\\\?\\UNC%s", path + 1);
    loads(other);
    snprintf(other, sizeof other, "%s.state", path);
    CHECK(!can_write(other, CREATE_ALWAYS));
    OK(ember_model_load(path, EMBER_NUL_TERMINATED, NULL, &model, E));
    OK(ember_context_new(model, NULL, &context, E));
    FAILS(EMBER_E_IO, ".state", ember_context_state_save_file(context, EMBER_ALL_SEQUENCES, other, EMBER_NUL_TERMINATED, E));
    FAILS(EMBER_E_IO, "does not exist", ember_model_load(other, EMBER_NUL_TERMINATED, NULL, &none, E));
    ember_context_free(context);
    ember_model_release(model);
    return finish("share");
}
