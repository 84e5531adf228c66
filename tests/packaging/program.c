/* What a user of an installed Ember writes: loads the model given, prints its architecture and the library's version. */
#include <ember.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    ember_model *model = NULL;
    ember_error *err = NULL;
    ember_model_info info;
    if (argc != 2)
        return 2;
    info.struct_size = sizeof info;
    if (ember_model_load(argv[1], EMBER_NUL_TERMINATED, NULL, &model, &err) != EMBER_OK ||
        ember_model_info_get(model, &info, &err) != EMBER_OK) {
        fprintf(stderr, "%s\n", ember_error_message(err));
        ember_error_free(err);
        return 1;
    }
    printf("%s %u\n", ember_version_string(), (unsigned)info.n_vocab);
    ember_model_release(model);
    return 0;
}
