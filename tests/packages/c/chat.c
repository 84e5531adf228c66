/* Answers each line of standard input, as it comes. */
#include <ember.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    ember_error *err = NULL;
    ember_model *model = NULL;
    ember_context *context = NULL;
    ember_generate_options *options = NULL;
    ember_conversation *chat = NULL;
    char line[1024];
    if (argc != 2)
        return 2;
    ember_status status = ember_model_load(argv[1], EMBER_NUL_TERMINATED, NULL, &model, &err);
    if (status == EMBER_OK)
        status = ember_context_new(model, NULL, &context, &err);
    if (status == EMBER_OK)
        status = ember_generate_options_new(&options, &err);
    if (status == EMBER_OK)
        status = ember_generate_options_set_max_tokens(options, 32, &err);
    if (status == EMBER_OK)
        status = ember_conversation_new(context, NULL, 0, NULL, options, &chat, &err);
    while (status == EMBER_OK && fgets(line, sizeof line, stdin) != NULL) {
        ember_chat_event event = {.struct_size = sizeof event};
        line[strcspn(line, "\n")] = '\0';
        status = ember_conversation_begin(chat, line, EMBER_NUL_TERMINATED, NULL, &err);
        while (status == EMBER_OK && event.kind != EMBER_CHAT_EVENT_END) {
            status = ember_conversation_next(chat, &event, &err);
            if (status == EMBER_OK && event.kind == EMBER_CHAT_EVENT_TEXT)
                fwrite(event.text, 1, event.text_len, stdout);
            fflush(stdout);
        }
        putchar('\n');
    }
    if (err != NULL)
        fprintf(stderr, "%s\n", ember_error_message(err));
    ember_error_free(err);
    ember_conversation_free(chat);
    ember_generate_options_free(options);
    ember_context_free(context);
    ember_model_release(model);
    return status != EMBER_OK;
}
