/* Paths as apps have them: spaces, umlauts, an emoji, more than 260 characters, and a file that may only be read. Models are loaded,
 * and the state of a context is saved and restored. On Windows the folders are made by the system's functions for UTF-16. */
#ifdef _WIN32
#include <windows.h>
#else
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>
#include <unistd.h>
#endif

#include "check.h"

#define MOST 2048

#ifdef _WIN32
/* The path in UTF-16, with the prefix without which the system's own functions end at 260 characters. */
static const wchar_t *wide(const char *path)
{
    static wchar_t out[MOST + 4];
    wcscpy(out, L"\\\\?\\");
    MultiByteToWideChar(CP_UTF8, 0, path, -1, out + 4, MOST);
    for (wchar_t *at = out; *at; at++)
        if (*at == L'/')
            *at = L'\\';
    return out;
}
static int make_folder(const char *path) { return CreateDirectoryW(wide(path), NULL) != 0; }
static int remove_folder(const char *path) { return RemoveDirectoryW(wide(path)) != 0; }
static int forbid_writing(const char *path) { return SetFileAttributesW(wide(path), FILE_ATTRIBUTE_READONLY) != 0; }
static int remove_file(const char *path)
{
    SetFileAttributesW(wide(path), FILE_ATTRIBUTE_NORMAL);
    return DeleteFileW(wide(path)) != 0;
}
static int write_file(const char *path, const char *bytes, size_t len)
{
    DWORD written = 0;
    HANDLE file = CreateFileW(wide(path), GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    int ok = file != INVALID_HANDLE_VALUE && WriteFile(file, bytes, (DWORD)len, &written, NULL) && written == len;
    return CloseHandle(file) && ok;
}
static void working_folder(char *out) { GetCurrentDirectoryA(MOST, out); }
#else
static int make_folder(const char *path) { return mkdir(path, 0700) == 0; }
static int remove_folder(const char *path) { return rmdir(path) == 0; }
static int forbid_writing(const char *path) { return chmod(path, 0400) == 0; }
static int remove_file(const char *path) { return unlink(path) == 0; }
static int write_file(const char *path, const char *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    int ok = file && fwrite(bytes, 1, len, file) == len;
    return file && fclose(file) == 0 && ok;
}
static void working_folder(char *out) { CHECK(getcwd(out, MOST) != NULL); }
#endif

static char *fixture;
static size_t fixture_len;

static void read_fixture(void)
{
    FILE *file = fopen(FIXTURE, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        exit(2);
    fixture_len = (size_t)ftell(file);
    fixture = malloc(fixture_len);
    rewind(file);
    if (!fixture || fread(fixture, 1, fixture_len, file) != fixture_len)
        exit(2);
    fclose(file);
}

/* The first logit after one token. */
static float first_logit(ember_context *context)
{
    const uint32_t token = 7;
    const float *row = NULL;
    OK(ember_context_decode(context, &token, NULL, NULL, NULL, 1, E));
    OK(ember_context_logits(context, 0, &row, E));
    return row ? row[0] : 0;
}

/* Loads the model in `folder`, saves a state beside it, and restores it. */
static void works_in(const char *folder)
{
    char path[MOST], state[MOST];
    snprintf(path, sizeof path, "%s/gr\xc3\xb6\xc3\x9f" "e \xf0\x9f\x94\xa5.gguf", folder);
    snprintf(state, sizeof state, "%s/\xe7\x8a\xb6\xe6\x85\x8b \xf0\x9f\x90\xa7.state", folder);
    CHECK(write_file(path, fixture, fixture_len));
    CHECK(forbid_writing(path));
    for (int mapped = 0; mapped < 2; mapped++) {
        ember_model_options *options = NULL;
        ember_model *model = NULL;
        ember_context *context = NULL;
        OK(ember_model_options_new(&options, E));
        OK(ember_model_options_set_use_mmap(options, mapped != 0, E));
        if (OK(ember_model_load(path, strlen(path), options, &model, E)) && OK(ember_context_new(model, NULL, &context, E))) {
            first_logit(context);
            OK(ember_context_state_save_file(context, EMBER_ALL_SEQUENCES, state, strlen(state), E));
            /* A file that is there is replaced. */
            OK(ember_context_state_save_file(context, EMBER_ALL_SEQUENCES, state, strlen(state), E));
            float want = first_logit(context);
            OK(ember_context_state_load_file(context, EMBER_ALL_SEQUENCES, state, strlen(state), E));
            CHECK(first_logit(context) == want);
        }
        ember_context_free(context);
        ember_model_release(model);
        ember_model_options_free(options);
        CHECK(remove_file(state));
    }
    CHECK(remove_file(path));
    ember_model *none = NULL;
    FAILS(EMBER_E_IO, "does not exist", ember_model_load(path, strlen(path), NULL, &none, E));
}

int main(void)
{
    char folder[MOST], deep[MOST];
    char *folders[8];
    size_t n = 0;
    read_fixture();
    working_folder(folder);
    for (char *at = folder; *at; at++)
        if (*at == '\\')
            *at = '/';
    strcat(folder, "/build/ein Ordner f\xc3\xbcr Pfade \xf0\x9f\x90\xa7");
    CHECK(make_folder(folder));
    works_in(folder);

    strcpy(deep, folder);
    while (strlen(deep) < 400 && n < sizeof folders / sizeof *folders) {
        strcat(deep, "/\xc3\xa4 eighty bytes of a name, so that the path is longer than Windows once had it");
        CHECK(make_folder(deep));
        folders[n] = malloc(strlen(deep) + 1);
        if (!folders[n])
            return 2;
        strcpy(folders[n++], deep);
    }
    CHECK(strlen(deep) > 300);
    works_in(deep);
    while (n > 0) {
        CHECK(remove_folder(folders[--n]));
        free(folders[n]);
    }
    CHECK(remove_folder(folder));
    free(fixture);
    return finish("paths");
}
