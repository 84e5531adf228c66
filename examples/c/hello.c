#include <stdio.h>
#include "ember.h"

static int32_t print(const ember_event *event, void *user_data)
{
    (void)user_data;
    return fwrite(event->text, 1, event->text_len, stdout) != event->text_len; /* anything but 0 stops */
}

int main(void)
{
    const char *path = "examples/models/ember-tales.gguf", *prompt = "The sea was calm, and the moon";
    ember_model *model = NULL;
    ember_context *context = NULL;
    ember_error *err = NULL;
    if (ember_model_load(path, EMBER_NUL_TERMINATED, NULL, &model, &err) == EMBER_OK &&
        ember_context_new(model, NULL, &context, &err) == EMBER_OK) {
        fputs(prompt, stdout);
        ember_generate(context, prompt, EMBER_NUL_TERMINATED, NULL, NULL, print, NULL, NULL, &err);
        putchar('\n');
    }
    int failed = err != NULL;
    if (failed)
        fprintf(stderr, "%s\n", ember_error_message(err));
    ember_error_free(err);
    ember_context_free(context);
    ember_model_release(model);
    return failed;
}
